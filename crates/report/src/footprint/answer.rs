// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reader's question in a sentence: what a fork shares, and how much of that was copied.

use cowlab_analysis::application::subjects;
use cowlab_analysis::samples::Samples;
use cowlab_schema::Writer;
use cowlab_schema::footprint::{self as names, Between, Mapping, Method};
use cowlab_store::Run;

use crate::fmt::{bytes, percent, time};

/// Of the program whose forks, or else whose writes, tell most; `None` without its totals.
pub fn answer(run: &Run) -> Option<String> {
    let samples = Samples::of(&run.samples, names::BENCH);
    let all = samples.with(names::MAPPING, Mapping::All).without(names::REGION);
    let subject = subjects(&samples).into_iter().next()?;
    let page_bytes = run.info.environments.first()?.page_size_bytes as f64;
    let size = |pages: f64| bytes((pages * page_bytes) as u64);
    let program = &subject.program;
    let of_program = all.with(names::PROGRAM, program);
    // A program that forks only to execute others has no span of the other kind.
    let forks = [Between::ForkToExit, Between::ForkToExec];
    let fork = forks.into_iter().find(|span| !of_program.with(names::SPAN, *span).is_empty());
    let Some(fork) = fork else {
        let own = |metric| subject.total(&samples, metric);
        let (mapped, written) = (own(names::PAGES_MAPPED)?, own(names::PAGES_WRITTEN)?);
        let share = own(names::WRITE_FRACTION).map(|share| format!(" ({})", percent(share)));
        let least = if share.is_none() && mapped > 0.0 { "at least " } else { "" };
        let when = match subject.span {
            Between::Run => "between its exec and its end".to_owned(),
            Between::Marks => "between its marks".to_owned(),
            _ => format!("in {}", time(own(names::DURATION_NS)?)),
        };
        return Some(format!(
            "No fork of {program} was seen: of its {} of private memory it wrote {least}{}{} {when}.",
            size(mapped),
            size(written),
            share.unwrap_or_default(),
        ));
    };
    let of_fork = of_program.with(names::SPAN, fork);
    // Where nobody adds both sides up, one side's copies are a part of all.
    let both = of_fork.with(names::WRITER, Writer::Either);
    let (rows, is_part) = match both.is_empty() {
        true => (of_fork.with(names::WRITER, subject.writer), true),
        false => (both, false),
    };
    let is_part = is_part
        || rows.with(names::METHOD, Method::Snapshot).first(names::SPANS).is_some()
        || of_fork.largest(names::FREED_UNSEEN_PAGES) > Some(0.0)
        || of_fork.largest(names::UNKNOWN_PAGES) > Some(0.0);
    let spans = rows.first(names::SPANS)?.max(1.0);
    let shared = rows.first(names::START_PAGES)? / spans;
    let copied = rows.first(names::COW_PAGES)? / spans;
    Some(format!(
        "A fork of {program} shares {} with its child{}; {}{} of that ({}) was copied before the child {}.",
        size(shared),
        if spans > 1.0 { format!(", on average over {spans} forks") } else { String::new() },
        if is_part { "at least " } else { "" },
        size(copied),
        percent(if shared > 0.0 { copied / shared } else { 0.0 }),
        if fork == Between::ForkToExit { "ended" } else { "executed another program" },
    ))
}
