// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace export`: a trace for Perfetto, or as tables for everything else.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use cowlab_casper::profile::Profile;
use cowlab_casper::read::Trace;
use cowlab_export::{Clocks, Exported, Format, create, export};
use cowlab_store::FORMAT;
use serde::Serialize;

use crate::args::{Common, ExportFormat, TraceExportArgs};
use crate::output;

#[derive(Serialize)]
struct Document {
    format: u32,
    file: PathBuf,
    out: PathBuf,
    calls: u64,
    events: u64,
    /// Events that the trace lacks: lost while recording, or from the file since.
    missing_events: u64,
    /// What the report adds up for the functions of these calls.
    functions: Vec<FunctionSum>,
}

/// The sums of functions of one name.
#[derive(Default, Serialize)]
struct FunctionSum {
    name: String,
    calls: u64,
    returned_calls: u64,
    /// Of the calls that returned, the probes' cost included: as in the export.
    returned_ns: f64,
}

fn sums(profile: &Profile) -> Vec<FunctionSum> {
    let mut sums: BTreeMap<&str, FunctionSum> = BTreeMap::new();
    for (_, function) in profile.functions.used().filter(|(_, function)| function.calls > 0) {
        let sum = sums.entry(&function.name).or_default();
        sum.name.clone_from(&function.name);
        sum.calls += function.calls;
        sum.returned_calls += function.times.count;
        sum.returned_ns += profile.clock.span_ns(function.raw_ticks as f64);
    }
    sums.into_values().collect()
}

/// Run the verb.
pub fn run(common: &Common, args: &TraceExportArgs) -> Result<()> {
    let trace = Trace::open(&args.file)?;
    let format = match args.format {
        ExportFormat::Perfetto => Format::Perfetto,
        ExportFormat::Csv => Format::Csv,
        ExportFormat::Parquet => Format::Parquet,
    };
    let header = trace.header();
    let clocks =
        Clocks { monotonic_ns: header.first_monotonic_ns, realtime_ns: header.first_realtime_ns };
    let Exported { calls, events, profile } = export(&trace, create(format, &args.out, clocks)?)?;
    let damage = &profile.damage;
    let lost = &damage.lost;
    let missing_events =
        damage.missing_events + lost.dropped + lost.overwritten + lost.no_buffer + lost.disk;
    if missing_events > 0 {
        output::say(&format!("the trace lacks {missing_events} events, so the export does"));
    }
    if common.json {
        let (file, out, functions) = (args.file.clone(), args.out.clone(), sums(&profile));
        let document =
            Document { format: FORMAT, file, out, calls, events, missing_events, functions };
        return output::json(&document);
    }
    let (out, what) = (
        args.out.display(),
        match args.format {
            ExportFormat::Perfetto => "open it in ui.perfetto.dev, or with trace_processor",
            ExportFormat::Csv | ExportFormat::Parquet => "a table for each type of event",
        },
    );
    output::say(&format!("{out} has {calls} calls and {events} events: {what}"));
    Ok(())
}
