// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `watch`: a live view of processes that fork; their metrics; recordings.

mod draw;
mod heat;
mod lines;
mod metrics;
mod penalty;
mod source;
mod stream;
mod terminal;
mod view;

use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use cowlab_machine::facts::DELAY_ACCOUNTING;
use cowlab_machine::{Guard, Root};
use cowlab_observe::watch::{Frame, Options, Wanted};
use cowlab_serve::{Endpoint, Newest};

use crate::args::WatchArgs;
use crate::output;
use crate::signals;
use penalty::Penalty;
use source::Source;
use stream::Recording;

/// Run the verb.
pub fn run(json: bool, args: &WatchArgs) -> Result<()> {
    let stop = signals::interrupted()?;
    let penalty = Penalty::find(&args.profile)?;
    let accounting = match args.delay_accounting {
        true => Some(Guard::ensure(&Root::default(), DELAY_ACCOUNTING, &["1"])?),
        false => None,
    };
    let newest = Newest::new(metrics::encode);
    let endpoint = args.listen.map(|address| Endpoint::open(address, &newest)).transpose()?;
    if let Some(endpoint) = &endpoint {
        output::say(&format!("metrics at http://{}/metrics", endpoint.address()));
    }
    let source = match &args.replay {
        Some(file) => Source::replay(file, &stop)?,
        None => {
            let wanted = args.target.clone().unwrap_or(Wanted::All);
            Source::live(wanted, options(args), interval(args), &stop)?
        }
    };
    // Not before there is something to record: the corrected command needs a new file as well.
    let mut recording = args.output.as_deref().map(Recording::create).transpose()?;
    for missing in source.missing() {
        output::say(&format!("not available: {missing}"));
    }
    // Every frame passes here, whatever is made of it.
    let mut seen = 0;
    let mut keep = |frame: &Frame| -> Result<bool> {
        seen += 1;
        if let Some(recording) = &mut recording {
            recording.add(frame)?;
        }
        if endpoint.is_some() {
            newest.set(frame.clone());
        }
        Ok(args.refreshes.is_some_and(|most| seen >= most))
    };
    let result = if !json && !args.plain && std::io::stdout().is_terminal() {
        terminal::run(&source, penalty.as_ref(), &stop, &mut keep)
    } else {
        // Where metrics are served, nobody reads lines, unless they are asked for.
        let silent = args.listen.is_some() && !json && !args.plain;
        // What is served or recorded is of use without a reader of lines.
        let goes_on = args.listen.is_some() || args.output.is_some();
        let is_over = || stop.load(Ordering::Relaxed) || (!goes_on && output::reader_has_gone());
        lines_of(&source, json, silent, is_over, &mut keep)
    };
    stop.store(true, Ordering::Relaxed);
    let ended = source.finish();
    if let Some(guard) = accounting {
        guard.restore()?;
    }
    result?;
    ended
}

/// One line of text or JSON a process and refresh.
fn lines_of(
    source: &Source,
    json: bool,
    silent: bool,
    is_over: impl Fn() -> bool,
    keep: &mut dyn FnMut(&Frame) -> Result<bool>,
) -> Result<()> {
    while !is_over() {
        let Some(frame) = source.next(Duration::from_millis(100)) else {
            if source.is_over() {
                break;
            }
            continue;
        };
        let is_last = keep(&frame)?;
        if json {
            output::print(&stream::line(&frame)?)?;
        } else if !silent {
            output::print(&lines::text(&frame))?;
        }
        if is_last {
            break;
        }
    }
    Ok(())
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

/// A file of addresses, for its owner alone.
fn private_file(path: &std::path::Path) -> Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::File::options();
    options.write(true).create_new(true).mode(0o600);
    options
        .open(path)
        .with_context(|| format!("cannot make {}: --output needs a new file", path.display()))
}
