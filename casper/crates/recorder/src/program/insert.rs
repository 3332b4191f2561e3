// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `insert PATH...`: copies of C sources that tell CASPER of each function's beginning and end.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Error, Result};
use cowlab_document::output;
use cowlab_document::usage::WrongUsage;
use cowlab_insert::{
    ExitKind, Failure, FileReport, Function, InsertPlan, InsertSettings, Selection, Target,
};
use serde::Serialize;

use super::args::{InsertArgs, globs};

#[derive(Serialize)]
struct InsertSummary<'a> {
    functions_found: usize,
    functions_instrumented: usize,
    functions_not_selected: usize,
    functions_left_alone: usize,
    files: &'a [FileReport],
    files_copied: &'a [PathBuf],
}

pub fn run(json: bool, args: &InsertArgs) -> Result<()> {
    let (wanted, excluded) = globs(&args.function);
    let selection = Selection::new(&wanted, &excluded, args.min_lines)
        .map_err(|error| WrongUsage(error.to_string()))?
        .of(if args.kernel { Target::Kernel } else { Target::Program });
    let plan = InsertPlan::new(&InsertSettings {
        paths: args.paths.clone(),
        output: args.output.clone(),
        root: args.root.clone(),
        files: args.file.clone(),
        selection,
    })
    .map_err(refusal)?;
    plan.write().map_err(refusal)?;
    let summary = InsertSummary::of(&plan);
    if json {
        return output::json(&summary);
    }
    output::print(&text(&summary, args))
}

fn refusal(failure: Failure) -> Error {
    match failure {
        Failure::Usage(message) => WrongUsage(message).into(),
        other => other.into(),
    }
}

impl<'a> InsertSummary<'a> {
    fn of(plan: &'a InsertPlan) -> InsertSummary<'a> {
        let count = |is: fn(&Function) -> bool| {
            plan.reports.iter().flat_map(|report| &report.functions).filter(|f| is(f)).count()
        };
        InsertSummary {
            functions_found: count(|_| true),
            functions_instrumented: count(|function| function.identifier.is_some()),
            functions_not_selected: count(|function| function.not_selected.is_some()),
            functions_left_alone: count(|function| function.left_alone.is_some()),
            files: &plan.reports,
            files_copied: &plan.copied,
        }
    }
}

/// One line a function, as compilers write them, so that editors find the place.
fn text(summary: &InsertSummary, args: &InsertArgs) -> String {
    let mut text = String::new();
    for report in summary.files {
        for function in &report.functions {
            let place = format!("{}:{}: {}", report.file.display(), function.line, function.name);
            // A String takes whatever is written to it.
            let _ = if let Some(reason) = &function.left_alone {
                writeln!(text, "{place}: left alone: {reason}")
            } else if args.list && function.identifier.is_some() {
                writeln!(text, "{place}: {}", exits(function))
            } else {
                Ok(())
            };
        }
    }
    let InsertSummary {
        functions_found: found,
        functions_instrumented: instrumented,
        functions_not_selected: not_selected,
        functions_left_alone: left_alone,
        ..
    } = summary;
    let files = summary.files.len();
    let _ = writeln!(
        text,
        "{found} functions found in {files} files: {instrumented} instrumented, {left_alone} left \
         alone, {not_selected} not selected"
    );
    let output = args.output.display();
    let _ = writeln!(text, "copies in {output}; {} other files copied", summary.files_copied.len());
    text
}

fn exits(function: &Function) -> String {
    let exits: Vec<String> = function
        .exits
        .iter()
        .map(|exit| {
            let kind = match exit.kind {
                ExitKind::Return => "return",
                ExitKind::End => "end",
                ExitKind::Noreturn => "no return",
            };
            format!("{kind} {}", exit.line)
        })
        .collect();
    format!("instrumented; left by {}", exits.join(", "))
}
