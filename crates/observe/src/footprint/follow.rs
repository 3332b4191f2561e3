// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command from its start to its end, and all that it forks: each process is held at its fork,
//! exec and end for as long as a look takes, so that what is seen is exact.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result};
use cowlab_machine::{ProcessError, Stat};

use super::faults::FaultLog;
use super::method::Method;
use super::reading::Reading;
use super::sides::{Side, since_fork};
use super::spans::{Between, Moment, Span, Spans, Writer, own_tally};
use super::tracer::{Event, Tracer};
use cowlab_machine::process::Pagemap;
use cowlab_machine::process::Target;

struct Process {
    target: Target,
    program: String,
    /// Which program it has, a number of its own since the exec; its forks have the same until theirs.
    image: u32,
    exec: Option<Moment>,
    /// At the fork that made it, of its parent.
    fork: Option<(Rc<Moment>, i32)>,
    /// At the last signal that marked a moment, and how many there were.
    mark: Option<Moment>,
    marks: u32,
    /// From its fork to an exec that may yet fail.
    until_exec: Vec<Span>,
}

/// Follows processes and adds up what they do.
pub struct Follow {
    tracer: Tracer,
    method: Method,
    processes: HashMap<i32, Process>,
    images: u32,
    pub spans: Spans,
    faults: Option<FaultLog>,
}

impl Follow {
    /// Begins with one process, which `tracer` follows.
    pub fn new(tracer: Tracer, method: Method, faults: Option<FaultLog>) -> Follow {
        let (processes, spans) = (HashMap::new(), Spans::default());
        Follow { tracer, method, processes, images: 0, spans, faults }
    }

    /// Looks at the first instruction of `pid`, which stands there, and lets it go on. If it cannot
    /// be looked at, it is ended before it has run anything.
    pub fn begin(&mut self, pid: i32) -> Result<(), ProcessError> {
        let begun = self.executed(pid);
        if begun.is_err() {
            self.tracer.end_unrun(pid);
        }
        self.tracer.resume();
        begun
    }

    /// Goes on until nobody is left, or `stop` says so, which is given when `root` ended. The wait status of
    /// `root`, if it ended.
    pub fn run(
        &mut self,
        root: i32,
        stop: impl Fn(Option<Instant>) -> bool,
    ) -> Result<Option<i32>> {
        let mut status = None;
        let mut ended = None;
        loop {
            let event = {
                let (processes, faults) = (&self.processes, &mut self.faults);
                let stop = || {
                    take_faults(faults, processes);
                    stop(ended)
                };
                self.tracer.next(stop).context("waitpid")?
            };
            let Some(event) = event else { return Ok(status) };
            if let Event::Ended { pid, status: own } = event {
                self.ended(pid);
                if pid == root {
                    status = Some(own);
                    ended = Some(Instant::now());
                }
                continue;
            }
            // Who is killed at this very moment cannot be looked at any more.
            if self.look(event).is_err() {
                self.spans.unseen += 1;
            }
            self.tracer.resume();
        }
    }

    /// Lets go of everybody; what was seen.
    pub fn finish(mut self) -> Spans {
        self.spans.stopped_ns = self.tracer.stopped_ns;
        self.spans.longest_stop_ns = self.tracer.longest_stop_ns;
        self.spans.longest_end_ns = self.tracer.longest_end_ns;
        self.spans.stops = self.tracer.stops;
        if let Some(faults) = self.faults.take() {
            faults.finish(&mut self.spans);
        }
        self.tracer.detach();
        self.spans.all_settled();
        self.spans
    }

    fn process(&self, pid: i32) -> Result<&Process, ProcessError> {
        self.processes.get(&pid).ok_or(ProcessError::NoSuchProcess { pid })
    }

    fn look_at(&mut self, pid: i32) -> Result<Moment, ProcessError> {
        let moment = Moment::take(&self.process(pid)?.target, self.method)?;
        self.spans.note(&moment);
        Ok(moment)
    }

    fn look(&mut self, event: Event) -> Result<(), ProcessError> {
        take_faults(&mut self.faults, &self.processes);
        match event {
            Event::Executed { pid } => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    std::mem::take(&mut process.until_exec)
                        .into_iter()
                        .for_each(|span| self.spans.add(span));
                }
                self.executed(pid)
            }
            Event::Forked { pid, child } => self.forked(pid, child),
            Event::Spawned { .. } => {
                self.spans.spawns += 1;
                Ok(())
            }
            Event::Executing { pid } => {
                let spans = self.fork_spans(pid, Between::ForkToExec)?;
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.until_exec = spans;
                }
                Ok(())
            }
            Event::Marked { pid } => self.marked(pid),
            Event::Ending { pid } => self.ending(pid),
            Event::Ended { .. } => Ok(()),
        }
    }

    fn executed(&mut self, pid: i32) -> Result<(), ProcessError> {
        // One that was forked shares its image with its parent, which has it still.
        if let Some(before) = self.processes.get(&pid).filter(|process| process.fork.is_none()) {
            self.spans.replaced(before.image);
        }
        let mut process = Process::new(Target::open(pid)?, self.new_image())?;
        let moment = Moment::take(&process.target, self.method)?;
        self.spans.note(&moment);
        process.exec = Some(moment);
        if let Some(faults) = &mut self.faults {
            faults.watch(pid);
        }
        self.processes.insert(pid, process);
        Ok(())
    }

    fn forked(&mut self, pid: i32, child: i32) -> Result<(), ProcessError> {
        self.spans.forks += 1;
        if let Some(faults) = &mut self.faults {
            faults.watch(child);
        }
        let moment = self.look_at(pid)?;
        let image = self.process(pid)?.image;
        let mut process = Process::new(Target::open(child)?, image)?;
        process.fork = Some((Rc::new(moment), pid));
        self.processes.insert(child, process);
        Ok(())
    }

    fn marked(&mut self, pid: i32) -> Result<(), ProcessError> {
        let before = self.processes.get_mut(&pid).and_then(|process| process.mark.take());
        if let Some(before) = before {
            self.own_span(pid, &before, Between::Marks)?;
        }
        let moment = self.look_at(pid)?;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.mark = Some(moment);
            process.marks += 1;
        }
        Ok(())
    }

    fn ending(&mut self, pid: i32) -> Result<(), ProcessError> {
        let Some(process) = self.processes.get_mut(&pid) else { return Ok(()) };
        let mark = process.mark.take().filter(|_| process.marks == 1);
        let exec = process.exec.take();
        if let Some(mark) = mark {
            self.own_span(pid, &mark, Between::Marks)?;
        }
        for span in self.fork_spans(pid, Between::ForkToExit)? {
            self.spans.add(span);
        }
        match exec {
            Some(exec) => self.own_span(pid, &exec, Between::Run),
            None => Ok(()),
        }
    }

    fn ended(&mut self, pid: i32) {
        let process = self.processes.remove(&pid);
        if let Some(process) = process.filter(|process| process.fork.is_none()) {
            self.spans.settled(process.image);
        }
        if let Some(faults) = &mut self.faults {
            faults.forget(pid);
        }
    }

    fn own_span(
        &mut self,
        pid: i32,
        before: &Moment,
        between: Between,
    ) -> Result<(), ProcessError> {
        let process = self.process(pid)?;
        let (tally, unknown_pages) = own_tally(before, &process.target, between)?;
        let span = Span::since(before, between, &process.program, Writer::Own, self.method, tally);
        let span = Span { unknown_pages, ..span };
        self.spans.add(span);
        Ok(())
    }

    /// What parent and child wrote since the fork that made `pid`.
    fn fork_spans(&mut self, pid: i32, between: Between) -> Result<Vec<Span>, ProcessError> {
        let process = self.processes.get(&pid).ok_or(ProcessError::NoSuchProcess { pid })?;
        let Some((fork, parent_pid)) = &process.fork else { return Ok(Vec::new()) };
        let child = Reading::take(&process.target, &mut Pagemap::open(&process.target)?)?;
        let parent = self.processes.get(parent_pid).map(|parent| &parent.target);
        // Another memory by now, or none: the parent has executed something, or has ended.
        let now =
            parent.and_then(|parent| Reading::take(parent, &mut Pagemap::open(parent).ok()?).ok());
        let since_fork_of = |stat: Stat| stat.minor_faults.saturating_sub(fork.minor_faults);
        let parent = parent.zip(now.as_ref()).map(|(target, now)| {
            let minor_faults = target.stat().map_or(0, since_fork_of);
            Side { target, now, minor_faults, is_gone: false }
        });
        let target = &process.target;
        let minor_faults = target.stat()?.minor_faults;
        let child = Some(Side { target, now: &child, minor_faults, is_gone: false });
        let (method, faults) = (self.method, self.faults.as_mut());
        let image = process.image;
        let spans = since_fork(fork, between, &process.program, method, [parent, child], faults)?;
        Ok(spans.into_iter().map(|span| Span { image, ..span }).collect())
    }

    fn new_image(&mut self) -> u32 {
        self.images += 1;
        self.images
    }
}

impl Process {
    fn new(target: Target, image: u32) -> Result<Process, ProcessError> {
        let program = target.stat()?.name;
        let until_exec = Vec::new();
        let (exec, fork, mark) = (None, None, None);
        Ok(Process { target, program, image, exec, fork, mark, marks: 0, until_exec })
    }
}

/// Takes in the faults that came, and drops those that no living fork asks about.
fn take_faults(faults: &mut Option<FaultLog>, processes: &HashMap<i32, Process>) {
    let Some(faults) = faults else { return };
    faults.drain();
    let mut since_ns: HashMap<i32, u64> = HashMap::new();
    for (child, process) in processes {
        let Some((fork, parent)) = &process.fork else { continue };
        for pid in [*child, *parent] {
            let since_ns = since_ns.entry(pid).or_insert(u64::MAX);
            *since_ns = fork.monotonic_ns.min(*since_ns);
        }
    }
    faults.keep(|pid| since_ns.get(&pid).copied());
}
