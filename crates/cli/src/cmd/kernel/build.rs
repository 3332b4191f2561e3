// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel build`: variants of the kernel, from the cache or made.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use cowlab_lab::build::BuildInfo;
use cowlab_lab::{Built, SourceChoice, source};
use serde::Serialize;

use crate::args::KernelBuildArgs;
use crate::lab::Lab;
use crate::output;

#[derive(Serialize)]
struct BuildSummary<'a> {
    kernels: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    image: String,
    cached: bool,
    #[serde(flatten)]
    info: &'a BuildInfo,
}

pub fn run(json: bool, args: &KernelBuildArgs) -> Result<()> {
    let lab = Lab::open(json)?.of(&args.source);
    if let Some(SourceChoice::Release(release)) = &args.source.source {
        source::fetch(&lab.cache, release, &|what| lab.say(what))?;
    }
    let mut all = Vec::new();
    for variant in &args.variant {
        let built =
            lab.built(*variant).with_context(|| format!("the {variant} kernel is not built"))?;
        all.push(built);
    }
    if json {
        return output::json_of(BuildSummary { kernels: all.iter().map(one).collect() }, &[], &[]);
    }
    output::print(&text(&all))
}

fn one(built: &Built) -> One<'_> {
    let image = built.image().display().to_string();
    One { image, cached: built.cached, info: &built.info }
}

fn text(all: &[Built]) -> String {
    let mut text = String::new();
    for built in all {
        let info = &built.info;
        let how = match built.cached {
            true => "cached".to_owned(),
            false => format!("built in {:.0} s", info.duration_s),
        };
        let patches = match info.patches.len() {
            0 => "no patches".to_owned(),
            1 => "1 patch".to_owned(),
            many => format!("{many} patches"),
        };
        // A String takes whatever is written to it.
        let _ = writeln!(
            text,
            "{}: Linux {} with {patches}, {how}: {}",
            info.variant,
            info.source.version,
            built.image().display()
        );
    }
    text
}
