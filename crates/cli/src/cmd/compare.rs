// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `compare RUN RUN`: which figures differ, by how much, and which could not have been told apart.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cowlab_analysis::comparison;
use cowlab_report::blame::{self, Blamed};
use cowlab_schema::footprint;
use cowlab_store::Run;
use cowlab_store::stacks::CopyStacks;

use crate::args::CompareArgs;
use crate::output;
use crate::usage::WrongUsage;

pub fn run(json: bool, args: &CompareArgs) -> Result<()> {
    if !(0.0..100.0).contains(&args.drift_percent) {
        bail!(WrongUsage("--drift-percent must be in 0..100".to_owned()));
    }
    let (first, second) = (Run::read(&args.first)?, Run::read(&args.second)?);
    let things = [&first, &second].map(thing);
    if args.bench.is_none() && things[0] != things[1] {
        let [first, second] = things;
        bail!(
            "these are runs of unlike things: {first}, and {second}; --bench NAME compares one bench"
        );
    }
    let names = [&args.first, &args.second].map(|path| name(path));
    if let (Some(one), Some(other)) =
        (CopyStacks::read(&args.first)?, CopyStacks::read(&args.second)?)
        && !json
    {
        return blames([(&first, &one), (&second, &other)], &names, args);
    }
    if args.flame_graph.is_some() {
        bail!(WrongUsage("--flame-graph is for two runs of `cowlab blame`".to_owned()));
    }
    if first.info.name == footprint::BENCH.name && args.bench.is_none() && !args.all && !json {
        let names = [names[0].as_str(), names[1].as_str()];
        return output::text(&cowlab_report::footprint::comparison([&first, &second], names));
    }
    let bench = args.bench.as_deref();
    let summary = comparison::of_runs([&first, &second], names, bench, args.drift_percent);
    if summary.compared == 0 {
        bail!(
            "{} and {} have no figure in common{}",
            args.first.display(),
            args.second.display(),
            args.bench.as_ref().map_or(String::new(), |bench| format!(" in {bench}"))
        );
    }
    if json {
        return output::json_of(summary, &[], &[]);
    }
    output::text(&cowlab_report::comparison::document(&summary, args.all))
}

/// Two runs of `blame`, code by code.
fn blames(both: [(&Run, &CopyStacks); 2], names: &[String; 2], args: &CompareArgs) -> Result<()> {
    let [one, other] = both.map(|(run, stacks)| Blamed::of(run, stacks));
    if let Some(file) = &args.flame_graph {
        let svg = blame::difference([&one, &other])?;
        let svg = svg.with_context(|| format!("{} copied nothing: there is no graph", names[1]))?;
        cowlab_store::replace(file, svg.as_bytes())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    output::text(&blame::comparison([&one, &other], [&names[0], &names[1]]))
}

/// What was run: a verb, and of a footprint the programs that it looked at.
fn thing(run: &Run) -> String {
    let name = &run.info.name;
    if name != footprint::BENCH.name {
        return name.clone();
    }
    let programs: BTreeSet<&str> =
        run.samples.iter().filter_map(|s| s.params.get("program")).map(String::as_str).collect();
    format!("{name} of {}", Vec::from_iter(programs).join(", "))
}

fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
}
