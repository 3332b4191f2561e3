// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `blame`: which code copies the pages that forks share.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cowlab_machine::process::Target;
use cowlab_machine::{Facts, Root};
use cowlab_observe::blame::{Collector, LOOK, Share};
use cowlab_report::blame::Blamed;
use cowlab_schema::blame as names;
use cowlab_store::stacks::STACKS_FILE;

use crate::args::{BlameArgs, wanted};
use crate::diagnosis::trigger;
use crate::recorded::{give_way, lacking, samples};
use crate::run_life::{Report, RunLife};
use crate::usage::{EndedWith, WrongUsage, cannot_start};
use crate::{output, signals};

/// How long running processes are looked at, if not given.
const USUAL_S: f64 = 10.0;

pub fn run(json: bool, args: &BlameArgs) -> Result<()> {
    let common = &args.run.common(json, false);
    if args.targets.is_empty() && args.command.is_empty() {
        bail!(WrongUsage(
            "name running processes by PID|NAME, or a command behind `--`, as in `cowlab blame -- \
             python3 program.py`"
                .to_owned()
        ));
    }
    let mut targets = Vec::new();
    for wanted in wanted(&args.targets)? {
        for (pid, _) in wanted.find()? {
            targets.push(Target::open(pid.cast_signed())?);
        }
    }
    let share = args.every.map_or(Share::ByCost, Share::Fixed);
    let facts = Facts::probe(&Root::default());
    let interrupts = signals::last()?;
    let mut collector = Collector::attach(share)?;
    let mut life = RunLife::begin(common, names::BENCH.name, facts.environment())?;
    let began = Instant::now();
    let stopped = || interrupts.load(Ordering::Relaxed) != 0;
    let status = match targets.is_empty() {
        true => Some(command(&mut collector, args, json, &interrupts)?),
        false => {
            for target in &targets {
                collector.watch(target)?;
            }
            let until = Duration::from_secs_f64(args.duration_s.unwrap_or(USUAL_S));
            let seconds = until.as_secs_f64();
            output::progress(json, &format!("recording for {seconds} s; Ctrl-C ends it earlier"));
            give_way();
            while began.elapsed() < until && !stopped() && targets.iter().any(Target::is_alive) {
                std::thread::sleep(LOOK);
                collector.look();
            }
            None
        }
    };
    let lasted = began.elapsed();
    let got = collector.finish();
    let nothing = targets.first().filter(|_| got.copies == 0 && !stopped()).map(|target| {
        let seconds = lasted.as_secs_f64();
        match targets.iter().any(Target::is_alive) {
            true => format!(
                "no page was copied in {seconds:.0} s: {} meanwhile, or look longer with --duration-s",
                trigger(target.name(), false)
            ),
            false => format!("{} ended after {seconds:.0} s, and copied no page before", target.name()),
        }
    });
    let start_unix_ns = life.run.info.started.as_nanosecond() as i64;
    life.run.samples = samples(&got, lasted, start_unix_ns);
    life.run.info.missing.extend(lacking(&got));
    let page_bytes = facts.page_size_bytes;
    let mut notes = Vec::new();
    let kept = life.end(Ok(()), |run| {
        let blamed = Blamed::of(run, &got.stacks);
        notes = blamed.notes();
        let mut report = Report::new(blamed.document(run)?, blamed.summary())?;
        let file = |name: &str, bytes: Vec<u8>| (name.to_owned(), bytes);
        report.files.push(file(STACKS_FILE, got.stacks.encode(page_bytes)?));
        report.files.push(file("stacks.folded", blamed.folded().as_bytes().to_vec()));
        if let Some(svg) = blamed.flame_graph()? {
            report.files.push(file("flame.svg", svg.into_bytes()));
        }
        Ok(report)
    })?;
    kept.print_findings(false)?;
    nothing.iter().for_each(|note| output::say(note));
    notes.iter().for_each(|note| output::say(note));
    for missing in &kept.run.info.missing {
        output::say(&format!("{}: {}", missing.metric, missing.reason));
    }
    match status {
        Some(status) if status != 0 => Err(EndedWith::of_wait_status(status).into()),
        _ => Ok(()),
    }
}

/// Runs the command and looks until it has ended.
fn command(
    collector: &mut Collector,
    args: &BlameArgs,
    json: bool,
    interrupts: &AtomicUsize,
) -> Result<i32> {
    use std::os::unix::process::ExitStatusExt as _;
    let (program, arguments) = args.command.split_first().context("no command was given")?;
    let mut start = Command::new(program);
    start.args(arguments);
    if json {
        // Standard output has the document, and nothing else.
        start.stdout(std::io::stderr());
    }
    collector.watch_own_children()?;
    let started = start.spawn();
    collector.leave();
    let mut child = started.with_context(|| cannot_start(program))?;
    give_way();
    loop {
        std::thread::sleep(LOOK);
        collector.look();
        if let Some(status) = child.try_wait()? {
            return Ok(status.into_raw());
        }
        let signal = interrupts.swap(0, Ordering::Relaxed);
        if signal != 0 {
            signals::forward(signal as i32, child.id() as i32);
        }
    }
}
