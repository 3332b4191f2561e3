// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel series`: the steps of one series as mails.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use cowlab_lab::mail::{self, Author, Checked};
use cowlab_lab::source::Source;
use cowlab_lab::{Order, Series, Variant, cover};
use cowlab_store::Run;
use serde::Serialize;

use crate::args::KernelSeriesArgs;
use crate::lab::Lab;
use crate::output;

#[derive(Serialize)]
struct SeriesSummary {
    mails: Vec<String>,
    source: Source,
    checkpatch: Vec<Checked>,
    /// Whether git am was tried; it worked, as this is printed.
    applied: bool,
    /// The steps after which a kernel was built.
    built: Vec<String>,
}

/// Run the verb.
pub fn run(json: bool, args: &KernelSeriesArgs) -> Result<()> {
    let lab = Lab::open(json)?.of(&args.source);
    let kernel = lab.kernel()?;
    let below: &[Series] = match args.series {
        Series::Upstream => &[],
        Series::Research => &[Series::Upstream],
    };
    let source = lab.source()?;
    let steps = kernel.steps(&[args.series], None, source.release())?;
    let below = kernel.steps(below, None, source.release())?;
    let author = match &args.author {
        Some(text) => Author::parse(text)?,
        None => Author::of_git(kernel.path())?,
    };
    let quoted = match &args.run {
        Some(folder) => Some((folder.as_path(), Run::read(folder)?)),
        None => None,
    };
    let quoted = quoted.as_ref().map(|(folder, run)| (*folder, run));
    let mut letter = cover::read(&kernel.file(&format!("{}/COVER", args.series)), quoted)?;
    let say = |what: &str| lab.say(what);
    let package = source.package.as_deref().map_or(String::new(), |p| format!(" (Debian {p})"));
    let with = if below.is_empty() { "" } else { ", with the series upstream" };
    letter.body += &format!("\nBased on Linux {}{package}{with}.\n", source.version);
    let commits = mail::commit(&lab.cache, &source, &below, &steps, &author, &say)?;
    let mails = commits.write(&args.output, args.reroll, &letter, &author)?;
    // checkpatch has nothing to say about a letter.
    let checkpatch = mail::checkpatch(&source.tree(&lab.cache), &mails[1..])?;
    if args.check {
        lab.say("applying the mails to a fresh source");
        commits.apply_again(&lab.cache, &mails, &author)?;
    }
    let variant = match args.series {
        Series::Upstream => Variant::Upstream,
        Series::Research => Variant::Patched,
    };
    let mut built = Vec::new();
    for step in steps.iter().filter(|_| args.build) {
        let mut order = Order::of(variant);
        order.source.clone_from(&lab.source);
        order.through = Some(step.name.clone());
        lab.watched(|watch| cowlab_lab::build(&lab.cache, &kernel, &order, watch))
            .with_context(|| format!("with the steps up to {}", step.name))?;
        built.push(step.name.clone());
    }
    let errors: u32 = checkpatch.iter().map(|checked| checked.errors).sum();
    let mails = mails.iter().map(|mail| mail.display().to_string()).collect();
    let summary = SeriesSummary { mails, source, checkpatch, applied: args.check, built };
    if json {
        output::json_of(summary, &[], &[])?;
    } else {
        output::print(&text(&summary))?;
    }
    if errors > 0 {
        bail!("checkpatch has {errors} errors");
    }
    Ok(())
}

fn text(summary: &SeriesSummary) -> String {
    let mut text = String::new();
    // A String takes whatever is written to it.
    for checked in &summary.checkpatch {
        let Checked { mail, errors, warnings, messages } = checked;
        let _ = writeln!(text, "{mail}: checkpatch: {errors} errors, {warnings} warnings");
        for message in messages {
            let _ = writeln!(text, "  {message}");
        }
    }
    let _ = write!(text, "{} mails for Linux {}", summary.mails.len(), summary.source.version);
    if summary.applied {
        text += ", applied by git am to a fresh source";
    }
    if !summary.built.is_empty() {
        let _ = write!(text, ", built after each of {} steps", summary.built.len());
    }
    text + "\n"
}
