// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a trace to an output: each call and event as the profile's pass goes through them, so that
//! what is exported is what a report counts.

use std::collections::{HashMap, HashSet};

use anyhow::{Error, Result};
use cowlab_casper::meta::Metadata;
use cowlab_casper::profile::{Functions, Place, Profile, ProfileSettings, Step, Watcher};
use cowlab_casper::read::{Clock, Record, Trace};
use cowlab_casper::symbol::Symbols;

use crate::{Call, Function, Output, Process, Thread};

/// What was exported.
#[derive(Debug)]
pub struct Exported {
    /// Calls.
    pub calls: u64,
    /// Events of the developers' types.
    pub events: u64,
    /// What a report says about the same trace.
    pub profile: Profile,
}

/// Tell `output` all that is in `trace`.
pub fn export(trace: &Trace, output: Box<dyn Output>) -> Result<Exported> {
    let mut teller = Teller {
        output,
        metadata: trace.metadata()?,
        clock: trace.clock(),
        symbols: Symbols::default(),
        processes: HashSet::new(),
        threads: HashMap::new(),
        functions: HashMap::new(),
        calls: 0,
        events: 0,
        failed: None,
    };
    let profile = Profile::watched(trace, &ProfileSettings::default(), &mut teller)?;
    let Teller { output, calls, events, failed, .. } = teller;
    if let Some(error) = failed {
        return Err(error);
    }
    output.finish()?;
    Ok(Exported { calls, events, profile })
}

struct Teller {
    output: Box<dyn Output>,
    metadata: Metadata,
    clock: Clock,
    symbols: Symbols,
    processes: HashSet<u32>,
    threads: HashMap<Place, Thread>,
    functions: HashMap<u32, Function>,
    calls: u64,
    events: u64,
    /// What ended the export; nothing is told after it.
    failed: Option<Error>,
}

impl Teller {
    /// See that a place's process and thread are known to the output.
    fn introduce(&mut self, place: &Place) -> Result<()> {
        if self.threads.contains_key(place) {
            return Ok(());
        }
        let owner = place.owner;
        if self.processes.insert(owner.process) {
            // A forked child runs the program of the process that executed it.
            let image = self.metadata.image(owner.process);
            let known = self.metadata.processes().get(&image);
            let name = known.map(|process| process.program.clone()).filter(|p| !p.is_empty());
            self.output.process(&Process { number: owner.process, pid: owner.pid, name })?;
        }
        let thread = Thread {
            number: self.threads.len() as u32,
            process: owner.process,
            pid: owner.pid,
            tid: owner.tid,
            name: self.metadata.thread(owner.process, owner.tid).map(str::to_owned),
            level: place.level,
        };
        self.output.thread(&thread)?;
        self.threads.insert(*place, thread);
        Ok(())
    }

    fn tell_step(&mut self, place: &Place, step: &Step, functions: &Functions) -> Result<()> {
        self.introduce(place)?;
        let thread = &self.threads[place];
        let (Step::Began { function: index, .. } | Step::Ended { function: index, .. }) = *step;
        let (metadata, symbols) = (&self.metadata, &mut self.symbols);
        let function = self.functions.entry(index).or_insert_with(|| {
            let found = functions.describe(index as usize, metadata, symbols);
            Function { number: index, name: found.name, file: found.file, line: found.line }
        });
        match *step {
            Step::Began { ticks, .. } => self.output.begin(thread, self.clock.ns(ticks), function),
            Step::Ended { began_ticks, ticks, depth, ended, .. } => {
                self.calls += 1;
                let (begin_ns, end_ns) = (self.clock.ns(began_ticks), self.clock.ns(ticks));
                self.output.end(thread, &Call { function, begin_ns, end_ns, depth, ended })
            }
        }
    }

    fn tell_event(&mut self, place: &Place, record: &Record) -> Result<()> {
        self.introduce(place)?;
        self.events += 1;
        self.output.event(&self.threads[place], record)
    }
}

impl Watcher for Teller {
    fn step(&mut self, place: &Place, step: &Step, functions: &Functions) {
        if self.failed.is_none() {
            self.failed = self.tell_step(place, step, functions).err();
        }
    }

    fn event(&mut self, place: &Place, record: &Record<'_>) {
        if self.failed.is_none() {
            self.failed = self.tell_event(place, record).err();
        }
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}
