// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `watch`: a live view of processes that fork; their metrics; recordings.

mod children;
mod draw;
mod heat;
mod lines;
mod metrics;
mod source;
mod stream;
mod terminal;
mod view;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use cowlab_observe::watch::{Frame, Options, Wanted};

use crate::args::{WatchArgs, wanted};
use crate::serve::{Endpoint, Newest};
use crate::sinks::Printer;
use crate::{output, signals};
use source::Source;

/// Frames that may wait for a reader of lines: each may be large.
const WAITING_FRAMES: usize = 4;

pub fn run(json: bool, args: &WatchArgs) -> Result<()> {
    let stop = signals::asked_to_end()?;
    let newest = Newest::default();
    let endpoint = Endpoint::listen(args.listen, &newest)?;
    let wanted = Wanted::any(wanted(&args.targets)?);
    let source = Source::begin(wanted, options(args), interval(args), &stop)?;
    for missing in source.missing() {
        output::say(&format!("not available: {missing}"));
    }
    // Every frame passes here, whatever is made of it.
    let mut seen = 0;
    let mut keep = |frame: &Frame| {
        seen += 1;
        if endpoint.is_some() {
            newest.set(metrics::of(frame));
        }
        args.refreshes.is_some_and(|most| seen >= most)
    };
    let result = if !json && std::io::stdout().is_terminal() {
        terminal::run(&source, &stop, &mut keep)
    } else {
        // Where metrics are served, nobody reads lines, unless they are asked for.
        let silent = args.listen.is_some() && !json;
        // What is served is of use without a reader of lines.
        let goes_on = args.listen.is_some();
        let lines = Lines { json, silent, goes_on };
        lines.print(&source, &stop, &mut keep)
    };
    stop.store(true, Ordering::Relaxed);
    let ended = source.finish();
    result?;
    ended
}

/// One line of text or JSON a process and refresh.
struct Lines {
    json: bool,
    silent: bool,
    goes_on: bool,
}

impl Lines {
    fn print(
        &self,
        source: &Source,
        stop: &AtomicBool,
        keep: &mut dyn FnMut(&Frame) -> bool,
    ) -> Result<()> {
        let mut printer = Printer::start(WAITING_FRAMES)?;
        let is_stopped = || stop.load(Ordering::Relaxed);
        while !is_stopped() && (self.goes_on || !output::reader_has_gone()) {
            let Some(mut frame) = source.next(Duration::from_millis(100)) else {
                if source.is_over() {
                    break;
                }
                continue;
            };
            frame.own.skipped_frames = (!self.silent).then_some(printer.skipped);
            let is_last = keep(&frame);
            let text = match (self.json, self.silent) {
                (true, _) => stream::line(&frame)?,
                (_, true) => String::new(),
                _ => lines::text(&frame),
            };
            if is_last || !printer.offer(text) {
                break;
            }
        }
        printer.finish(stop)
    }
}

fn options(args: &WatchArgs) -> Options {
    Options {
        counts: args.count,
        without_bpf: args.no_bpf,
        // A service may be started before what it watches.
        may_be_empty: args.listen.is_some(),
    }
}

fn interval(args: &WatchArgs) -> Duration {
    Duration::from_secs_f64(args.interval_s)
}
