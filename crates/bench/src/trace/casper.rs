// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libcasper's events and calls: recorded as by a flight recorder whose drain is idle, and with
//! nobody recording; libcasper in the program, and as a shared library.

use std::rc::Rc;

use crate::probes::{Program, Runner, TraceResult, TraceRun, TraceSources};
use anyhow::{Context, Result, ensure};
use cowlab_casper::write::DataChunk;
use cowlab_recorder::{Drain, Options, Session, Sink, WhenFull};

use super::{BENCH, Tool, Traced, run_of, samples};
use crate::task::Task;

/// How a program has libcasper, and its programs for events, for functions that `cowlab insert`
/// instrumented, and for -finstrument-functions.
struct Link {
    name: &'static str,
    events: Program,
    insert: Program,
    hooks: Program,
}

const LINKS: [Link; 2] = [
    Link {
        name: "static",
        events: Program::CasperEventsStatic,
        insert: Program::CasperInsertStatic,
        hooks: Program::CasperHooksStatic,
    },
    Link {
        name: "shared",
        events: Program::CasperEventsShared,
        insert: Program::CasperInsertShared,
        hooks: Program::CasperHooksShared,
    },
];

/// Tasks for `tool`, for each way of linking and each number of threads.
pub(super) fn tasks(
    cells: &[&Traced],
    tool: Tool,
    sources: &Rc<TraceSources>,
) -> Result<Vec<Task>> {
    sources.lay_out_libcasper()?;
    let mut tasks = Vec::new();
    for link in &LINKS {
        for &cell in cells {
            let threads = cell.threads;
            let run = run_of(cell, cell.buffer_bytes);
            let name = format!("{BENCH}: {tool} {}, {threads} threads", link.name);
            let sources = Rc::clone(sources);
            tasks.push(Task::new(name, move |runner, round| {
                let program = Called { runner, sources: &sources };
                let params = samples::params(tool, link.name, &run, None);
                if tool == Tool::Casper {
                    let events = program.recorded(&run, link.events, 1)?;
                    samples::of_events(round, samples::EVENT, params.clone(), &events)?;
                    let off = program.alone(&run, link.events)?;
                    samples::of_events(round, samples::EVENT_OFF, params.clone(), &off)?;
                }
                let calls = if tool == Tool::Casper { link.insert } else { link.hooks };
                samples::of_calls(round, samples::CALLS, &params, &run, runner, |run| {
                    program.recorded(run, calls, 2)
                })?;
                samples::of_calls(round, samples::CALLS_OFF, &params, &run, runner, |run| {
                    program.alone(run, calls)
                })
            }));
        }
    }
    Ok(tasks)
}

/// A program with libcasper, and how it is run.
struct Called<'a> {
    runner: &'a Runner,
    sources: &'a TraceSources,
}

impl Called<'_> {
    /// Run it in a session of its own. Nobody drains: old events are overwritten. All are counted:
    /// `events_of_one` for each that the program says it made.
    fn recorded(
        &self,
        run: &TraceRun,
        program: Program,
        events_of_one: u64,
    ) -> Result<TraceResult> {
        let session = Session::create(Options {
            when_full: WhenFull::Overwrite,
            buffer_bytes: run.buffer_bytes,
            buffers: run.threads + 1,
            ..Options::default()
        })?;
        session.beat();
        session.turn(true)?;
        let path = session.path();
        let path = path.to_str().context("the session has a strange path")?;
        let result = self.run(run, program, &[("CASPER_SESSION", path)])?;
        ensure!(result.recorded != Some(false), "libcasper did not enter the session");
        session.turn(false)?;
        let made = result.made_events.iter().sum::<u64>() * events_of_one;
        let found = counted(&session);
        ensure!(found == made, "the session counts {found} events of {made} that were made");
        Ok(result)
    }

    /// Run it with nobody recording.
    fn alone(&self, run: &TraceRun, program: Program) -> Result<TraceResult> {
        let result = self.run(run, program, &[])?;
        ensure!(result.recorded != Some(true), "somebody records this program: nothing is off");
        Ok(result)
    }

    fn run(
        &self,
        run: &TraceRun,
        program: Program,
        environment: &[(&str, &str)],
    ) -> Result<TraceResult> {
        let folder = self.sources.folder().to_str().context("the temporary folder's name")?;
        let mut all = vec![("LD_LIBRARY_PATH", folder)];
        all.extend(environment);
        run.run_with(self.runner, program, &all)
    }
}

/// Events of a session that is over, stored or overwritten.
fn counted(session: &Session) -> u64 {
    struct Nowhere;
    impl Sink for Nowhere {
        fn data(&mut self, _: &DataChunk, _: &[u8]) {}
    }
    let mut drain = Drain::default();
    drain.round(session, &mut Nowhere, true);
    drain.totals().iter().map(|total| total.stored + total.overwritten).sum()
}
