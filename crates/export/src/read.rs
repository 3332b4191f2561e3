// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a trace to an output: all streams in the order of time, calls put together.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use cowlab_casper::meta::Metadata;
use cowlab_casper::read::{Damage, Owner, Record, Trace};
use cowlab_casper::record::*;
use zerocopy::FromBytes;

use crate::calls::{Ended, Frame, Stack};
use crate::{Call, Function, Output, Process, Thread};

/// A function as its events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Callee {
    /// The number that `insert` gave it.
    Number(u32),
    /// Its address.
    Address(u64),
}

/// Who knows the names of functions: asked once for each.
pub type Names<'a> = dyn FnMut(&Metadata, u32, Callee) -> Function + 'a;

/// What was exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// Calls.
    pub calls: u64,
    /// Events of the developers' types.
    pub events: u64,
    /// What the trace lacks.
    pub damage: Damage,
}

/// Tell `output` all that is in `trace`.
pub fn export(trace: &Trace, output: Box<dyn Output>) -> Result<Exported> {
    let names: &mut Names = &mut name;
    let mut merge = trace.merge()?;
    let metadata = merge.metadata().clone();
    let mut teller = Teller {
        output,
        names,
        metadata,
        processes: HashSet::new(),
        threads: Vec::new(),
        numbers: HashMap::new(),
        functions: HashMap::new(),
        exported: Exported::default(),
    };
    while let Some(record) = merge.next()? {
        teller.record(&record)?;
    }
    teller.exported.damage = merge.damage().clone();
    teller.finish()
}

/// A thread, and what it has not ended.
struct Running {
    thread: Thread,
    stack: Stack<Callee>,
    last_ns: u64,
}

struct Teller<'a, 'n> {
    output: Box<dyn Output>,
    names: &'a mut Names<'n>,
    metadata: Metadata,
    processes: HashSet<u32>,
    threads: Vec<Running>,
    /// Places in `threads`. A stream changes hands where a vfork child borrows its parent's.
    numbers: HashMap<(u32, Owner), usize>,
    functions: HashMap<(u32, Callee), Function>,
    exported: Exported,
}

impl Teller<'_, '_> {
    fn record(&mut self, record: &Record) -> Result<()> {
        let number = self.thread(record)?;
        self.threads[number].last_ns = record.time_ns;
        match u32::from(record.event_type) {
            CASPER_ENTER => {
                if let Ok((event, _)) = casper_enter::read_from_prefix(record.bytes) {
                    let frame = u64::from(event.frame_high) << 32 | u64::from(event.frame_low);
                    self.begin(number, record.time_ns, Callee::Number(event.function), frame)?;
                }
            }
            CASPER_ENTER_ADDRESS => {
                if let Ok((event, _)) = casper_enter_address::read_from_prefix(record.bytes) {
                    let frame = u64::from(event.frame_high) << 32 | u64::from(event.frame_low);
                    self.begin(number, record.time_ns, Callee::Address(event.function), frame)?;
                }
            }
            CASPER_EXIT => {
                if let Ok((event, _)) = casper_exit::read_from_prefix(record.bytes) {
                    self.end(number, record.time_ns, Callee::Number(event.function))?;
                }
            }
            CASPER_EXIT_ADDRESS => {
                if let Ok((event, _)) = casper_exit_address::read_from_prefix(record.bytes) {
                    self.end(number, record.time_ns, Callee::Address(event.function))?;
                }
            }
            _ => {
                self.exported.events += 1;
                self.output.event(&self.threads[number].thread, record)?;
            }
        }
        Ok(())
    }

    /// The place of a record's thread, which is told if it is new.
    fn thread(&mut self, record: &Record) -> Result<usize> {
        let (owner, stream) = (record.owner, record.stream);
        if let Some(number) = self.numbers.get(&(stream, owner)) {
            return Ok(*number);
        }
        if self.processes.insert(owner.process) {
            let known = self.metadata.processes().get(&owner.process);
            let name = known.map(|process| process.program.clone()).filter(|p| !p.is_empty());
            self.output.process(&Process { number: owner.process, pid: owner.pid, name })?;
        }
        let number = self.threads.len();
        let thread = Thread {
            number: number as u32,
            process: owner.process,
            pid: owner.pid,
            tid: owner.tid,
            name: self.metadata.thread(owner.process, owner.tid).map(str::to_owned),
            level: record.level,
        };
        self.output.thread(&thread)?;
        self.threads.push(Running { thread, stack: Stack::default(), last_ns: 0 });
        self.numbers.insert((stream, owner), number);
        Ok(number)
    }

    fn begin(&mut self, number: usize, time_ns: u64, callee: Callee, frame: u64) -> Result<()> {
        while let Some(left) = self.threads[number].stack.left_by(frame) {
            self.over(number, left, time_ns, Ended::Left)?;
        }
        self.threads[number].stack.push(Frame { function: callee, begin_ns: time_ns, frame });
        let process = self.threads[number].thread.process;
        let function = function(&mut self.functions, self.names, &self.metadata, process, callee);
        self.output.begin(&self.threads[number].thread, time_ns, function)
    }

    fn end(&mut self, number: usize, time_ns: u64, callee: Callee) -> Result<()> {
        let count = self.threads[number].stack.ended_by(callee);
        for within in (0..count).rev() {
            let ended = if within == 0 { Ended::Returned } else { Ended::Left };
            if let Some(frame) = self.threads[number].stack.pop() {
                self.over(number, frame, time_ns, ended)?;
            }
        }
        Ok(())
    }

    /// A call is over, and off its stack.
    fn over(
        &mut self,
        number: usize,
        frame: Frame<Callee>,
        end_ns: u64,
        ended: Ended,
    ) -> Result<()> {
        let Running { thread, stack, .. } = &self.threads[number];
        let function = function(
            &mut self.functions,
            self.names,
            &self.metadata,
            thread.process,
            frame.function,
        );
        self.exported.calls += 1;
        let depth = stack.depth() as u32;
        let call = Call { function, begin_ns: frame.begin_ns, end_ns, depth, ended };
        self.output.end(thread, &call)
    }

    fn finish(mut self) -> Result<Exported> {
        for number in 0..self.threads.len() {
            let end_ns = self.threads[number].last_ns;
            while let Some(frame) = self.threads[number].stack.pop() {
                self.over(number, frame, end_ns, Ended::Open)?;
            }
        }
        self.output.finish()?;
        Ok(self.exported)
    }
}

/// A function by its name, which is asked for once in each program.
fn function<'f>(
    known: &'f mut HashMap<(u32, Callee), Function>,
    names: &mut Names,
    metadata: &Metadata,
    process: u32,
    callee: Callee,
) -> &'f Function {
    // A forked child has its parent's, until it loads or registers more.
    let number = known.len() as u32;
    known
        .entry((process, callee))
        .or_insert_with(|| Function { number, ..names(metadata, process, callee) })
}

/// What the metadata says about a function.
fn name(metadata: &Metadata, process: u32, callee: Callee) -> Function {
    let unknown = |name| Function { number: 0, name, file: None, line: None };
    match callee {
        Callee::Number(number) => match metadata.function(process, number) {
            Some(found) => Function {
                file: Some(found.file.clone()),
                line: Some(found.line),
                ..unknown(found.name.clone())
            },
            None => unknown(format!("function {number}")),
        },
        Callee::Address(address) => match metadata.module(process, address) {
            Some(module) => {
                let file = module.path.rsplit('/').next().unwrap_or_default();
                unknown(format!("{file}+{:#x}", address.wrapping_sub(module.bias)))
            }
            None => unknown(format!("{address:#x}")),
        },
    }
}
