// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `report FILE`: what a trace says.

use anyhow::{Context as _, Result, anyhow, bail};
use cowlab_casper::meta::Metadata;
use cowlab_casper::profile::{Pair, Profile, ProfileError, ProfileSettings};
use cowlab_casper::read::Trace;
use cowlab_document::usage::WrongUsage;
use cowlab_document::{fmt, html, output};
use serde_json::json;

use super::args::ReportArgs;
use super::open;
use super::tables::{self, Group, View};

pub fn run(json: bool, args: &ReportArgs) -> Result<()> {
    let (settings, view) = settings(args)?;
    let file = open(&args.file)?;
    let profile = Profile::of(&file, &settings).map_err(|error| match error {
        ProfileError::Unknown(unknown) => {
            anyhow!(WrongUsage(format!("{}: {unknown}", args.file.display())))
        }
        other => other.into(),
    })?;
    if profile.types.iter().all(|of| of.count == 0) && args.pid.is_some() {
        bail!("{} has no events of that process: --by process lists them", args.file.display());
    }
    let title = match file.command() {
        command if command.is_empty() => format!("Trace {}", args.file.display()),
        command => format!("Trace of {command}"),
    };
    if let Some(path) = &args.output {
        let page = View { plots: true, ..view.clone() };
        let document = tables::document(&title, facts(&file, &profile), &profile, &page);
        std::fs::write(path, html::render(&document))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if json {
        let header = file.header();
        let mut summary = tables::summary(&profile, &view);
        summary["trace"] = json!({
            "path": args.file, "bytes": file.bytes(), "command": file.command(),
            "began_unix_ns": header.first_realtime_ns,
            "exit_status": (header.exit_status != -1).then_some(header.exit_status),
        });
        return output::json(&summary);
    }
    output::text(&tables::document(&title, facts(&file, &profile), &profile, &view))
}

fn settings(args: &ReportArgs) -> Result<(ProfileSettings, View)> {
    let mut settings = ProfileSettings { pid: args.pid, ..ProfileSettings::default() };
    let mut view = View {
        function: args.function.clone(),
        order: args.sort,
        limit: args.limit,
        ..View::default()
    };
    match args.by.as_deref() {
        None => {}
        Some("process") => view.group = Group::Process,
        Some("thread") => view.group = Group::Thread,
        Some(by) => match by.rsplit_once('.') {
            Some((event, field)) if !event.is_empty() && !field.is_empty() => {
                settings.field = Some((event.to_owned(), field.to_owned()));
            }
            _ => bail!(WrongUsage(format!("--by {by}: process, thread or TYPE.FIELD"))),
        },
    }
    let all = args.between.iter().map(|between| (between, "--between"));
    for (text, flag) in all.chain(args.total.iter().map(|total| (total, "--total"))) {
        let (name, pair) = match text.split_once('=') {
            Some((name, pair)) => (Some(name.to_owned()), pair),
            None if flag == "--total" => {
                bail!(WrongUsage(format!("{flag} {text}: NAME=A,B, with the types of two events")))
            }
            None => (None, text.as_str()),
        };
        let (from, to) = types(pair, flag)?;
        let name = name.unwrap_or_else(|| format!("{from} to {to}"));
        if settings.pairs.iter().any(|pair| pair.name == name) {
            bail!(WrongUsage(format!("{flag} {text}: there is another '{name}'")));
        }
        if flag == "--total" {
            view.total = Some(name.clone());
        }
        settings.pairs.push(Pair { name, from, to });
    }
    Ok((settings, view))
}

fn types(text: &str, flag: &str) -> Result<(String, String)> {
    match text.split_once(',') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => {
            Ok((from.to_owned(), to.to_owned()))
        }
        _ => bail!(WrongUsage(format!("{flag} {text}: A,B, the types of two events"))),
    }
}

fn facts(file: &Trace, profile: &Profile) -> Vec<(String, String)> {
    let first = profile.types.iter().map(|of| of.first).min();
    let last = profile.types.iter().map(|of| of.last).max();
    let length = first.zip(last).map(|(first, last)| last.saturating_sub(first));
    let spans = length.map(|ticks| profile.clock.span_ns(ticks as f64));
    let mut threads: Vec<_> = profile.types.iter().map(|of| (of.owner.pid, of.owner.tid)).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut facts = vec![
        ("file".to_owned(), file.path().display().to_string()),
        ("size".to_owned(), fmt::quantity(file.bytes() as f64, "bytes")),
        ("events".to_owned(), fmt::count(profile.damage.read_events)),
        ("processes".to_owned(), programs(&profile.metadata)),
        ("threads".to_owned(), threads.len().to_string()),
    ];
    if !profile.cpus.is_empty() {
        let count = |(cpu, on): (&u32, &cowlab_casper::profile::CpuCount)| {
            format!("{cpu} ({} events)", fmt::count(on.events))
        };
        let arrivals: u64 = profile.cpus.values().map(|on| on.arrivals).sum();
        let list = profile.cpus.iter().map(count).collect::<Vec<_>>().join(", ");
        facts.push(("CPUs".to_owned(), format!("{list}; {arrivals} moves between them")));
    }
    if let Some(ns) = spans {
        facts.push(("from first to last".to_owned(), fmt::quantity(ns, "ns")));
    }
    facts
}

/// How many processes, and of which programs.
fn programs(metadata: &Metadata) -> String {
    let mut names: Vec<&str> = metadata
        .processes()
        .values()
        .map(|process| process.program.rsplit('/').next().unwrap_or_default())
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > 5 { ", …" } else { "" };
    let shown = names.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    format!("{} ({shown}{more})", metadata.processes().len())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::program::args::{Cli, Verb};

    fn parse(flags: &str) -> Result<(ProfileSettings, View)> {
        let words = format!("casper-trace report t {flags}");
        match Cli::try_parse_from(words.split_whitespace())?.verb {
            Verb::Report(args) => settings(&args),
            _ => unreachable!(),
        }
    }

    #[test]
    fn flags_become_settings() {
        let (settings, view) =
            parse("--by a.b.c --between x,y --between s=1,2 --total t=3,4").unwrap();
        assert_eq!(settings.field, Some(("a.b".to_owned(), "c".to_owned())));
        let names: Vec<_> = settings.pairs.iter().map(|pair| pair.name.as_str()).collect();
        assert_eq!(names, ["x to y", "s", "t"]);
        assert_eq!(view.total.as_deref(), Some("t"));
        assert_eq!(parse("--by thread").unwrap().1.group, Group::Thread);
        for bad in ["--by nothing", "--by .x", "--between x", "--total x,y"] {
            assert!(parse(bad).unwrap_err().is::<WrongUsage>(), "{bad}");
        }
    }
}
