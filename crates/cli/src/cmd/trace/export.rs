// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace export`: a trace for Perfetto, or as tables for everything else.

use std::path::Path;

use anyhow::Result;
use cowlab_export::{Clocks, Exported, Format, create, export};
use serde::Serialize;

use super::{missing, missing_events, open};
use crate::args::{ExportFormat, TraceExportArgs};
use crate::output;

#[derive(Serialize)]
struct ExportSummary<'a> {
    file: &'a Path,
    output: &'a Path,
    calls: u64,
    events: u64,
    /// Events that the trace lacks.
    missing_events: u64,
}

/// Run the verb.
pub fn run(json: bool, args: &TraceExportArgs) -> Result<()> {
    let trace = open(&args.file)?;
    let format = match args.format {
        ExportFormat::Perfetto => Format::Perfetto,
        ExportFormat::Csv => Format::Csv,
        ExportFormat::Parquet => Format::Parquet,
    };
    let header = trace.header();
    let clocks =
        Clocks { monotonic_ns: header.first_monotonic_ns, realtime_ns: header.first_realtime_ns };
    let Exported { calls, events, profile } =
        export(&trace, create(format, &args.output, clocks)?)?;
    let missing_events = missing_events(&profile);
    if missing_events > 0 {
        output::say(&format!("the trace lacks {missing_events} events, so the export does"));
    }
    if json {
        let summary =
            ExportSummary { file: &args.file, output: &args.output, calls, events, missing_events };
        return output::json_of(summary, &[], &missing(&profile));
    }
    let (out, what) = (
        args.output.display(),
        match args.format {
            ExportFormat::Perfetto => "open it in ui.perfetto.dev, or with trace_processor",
            ExportFormat::Csv | ExportFormat::Parquet => "a table for each type of event",
        },
    );
    output::say(&format!("{out} has {calls} calls and {events} events: {what}"));
    Ok(())
}
