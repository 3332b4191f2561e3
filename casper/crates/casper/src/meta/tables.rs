// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the metadata of a trace says, by process. A forked child has its parent's tables.

use std::collections::{BTreeMap, HashMap};

use zerocopy::FromBytes;

use super::types::{EventType, OWN, Texts};
use super::{Entry, entries};
use crate::record::*;

/// How a process came into the trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// Its entry was lost.
    #[default]
    Unknown,
    /// Executed while recording.
    Started,
    /// By fork; its tables are its parent's.
    Forked,
    /// By vfork; its tables are its parent's.
    Vforked,
    /// Ran before.
    Attached,
}

/// A function that `insert` instrumented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The source file.
    pub file: String,
    /// The line where it begins.
    pub line: u32,
}

/// Executable memory that was mapped from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Run-time address minus the address in the file.
    pub bias: u64,
    /// Its build id, where it has one.
    pub build_id: Vec<u8>,
    /// The file.
    pub path: String,
}

/// A process of the trace.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Its parent's pid.
    pub parent_pid: u32,
    /// Its parent's number in this trace; 0: not traced.
    pub parent: u32,
    /// How it came into the trace.
    pub origin: Origin,
    /// When.
    pub ticks: u64,
    /// Its program.
    pub program: String,
    /// Names of threads.
    pub threads: BTreeMap<u32, String>,
    /// Loaded files, in the order in which they were loaded.
    pub modules: Vec<Module>,
    types: HashMap<u16, EventType>,
    functions: HashMap<u32, Function>,
}

/// All metadata of a trace.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    processes: BTreeMap<u32, Process>,
    /// Entries that their writer did not live to finish.
    pub unfinished: u64,
    /// Entries that make no sense, and bytes after which the list could not be followed.
    pub damaged: u64,
}

impl Metadata {
    /// Add the entries of a chunk.
    pub fn add(&mut self, payload: &[u8]) {
        let mut walk = entries(payload);
        for entry in walk.by_ref() {
            if entry.head.committed == 0 {
                self.unfinished += 1;
            } else if self.entry(&entry).is_none() {
                self.damaged += 1;
            }
        }
        if walk.rest_bytes() > 0 {
            self.damaged += 1;
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Option<()> {
        let content = entry.content;
        let process = self.processes.entry(entry.head.process).or_default();
        match u32::from(entry.head.kind) {
            CASPER_META_PROCESS => {
                let (head, path) = casper_meta_process::read_from_prefix(content).ok()?;
                process.pid = head.pid;
                process.parent_pid = head.parent_pid;
                process.parent = head.parent_process;
                process.ticks = head.ticks;
                process.origin = match head.origin {
                    CASPER_ORIGIN_STARTED => Origin::Started,
                    CASPER_ORIGIN_FORKED => Origin::Forked,
                    CASPER_ORIGIN_VFORKED => Origin::Vforked,
                    CASPER_ORIGIN_ATTACHED => Origin::Attached,
                    _ => Origin::Unknown,
                };
                process.program = lossy(path);
            }
            CASPER_META_TYPE => {
                let found = EventType::parse(content)?;
                process.types.entry(found.event_type).or_insert(found);
            }
            CASPER_META_FUNCTIONS => {
                let (head, rest) = casper_meta_functions::read_from_prefix(content).ok()?;
                let mut texts = Texts(rest);
                let file = texts.next()?;
                for number in 0..head.count {
                    let (line, rest) = u32::read_from_prefix(texts.0).ok()?;
                    texts = Texts(rest);
                    let function = Function { name: texts.next()?, file: file.clone(), line };
                    process.functions.insert(head.first.checked_add(number)?, function);
                }
            }
            CASPER_META_MODULE => {
                let (head, path) = casper_meta_module::read_from_prefix(content).ok()?;
                let length = (head.build_id_bytes as usize).min(head.build_id.len());
                process.modules.push(Module {
                    start: head.start,
                    end: head.end,
                    bias: head.bias,
                    build_id: head.build_id[..length].to_vec(),
                    path: lossy(path),
                });
            }
            CASPER_META_THREAD => {
                let (head, _) = casper_meta_thread::read_from_prefix(content).ok()?;
                process.threads.insert(head.tid, lossy(&head.name));
            }
            _ => return None,
        }
        Some(())
    }

    /// The processes by their number.
    pub fn processes(&self) -> &BTreeMap<u32, Process> {
        &self.processes
    }

    /// A process and those whose tables it has as well, itself first.
    fn lineage(&self, process: u32) -> impl Iterator<Item = (u32, &Process)> {
        let find = |number: u32| self.processes.get(&number).map(|process| (number, process));
        std::iter::successors(find(process), move |(number, process)| {
            let inherits = matches!(process.origin, Origin::Forked | Origin::Vforked);
            // A parent always has the smaller number: damaged metadata makes no circle.
            if inherits && process.parent < *number { find(process.parent) } else { None }
        })
    }

    /// The process that executed the program which this one runs: where its tables began.
    pub fn image(&self, process: u32) -> u32 {
        self.lineage(process).last().map_or(process, |(number, _)| number)
    }

    /// The program that a process runs; a forked child has its parent's.
    pub fn program(&self, process: u32) -> Option<&str> {
        let mut programs = self.lineage(process).map(|(_, process)| process.program.as_str());
        programs.find(|program| !program.is_empty())
    }

    /// What is known about a type in a process.
    pub fn event_type(&self, process: u32, event_type: u16) -> Option<&EventType> {
        if let Some(own) = OWN.get(usize::from(event_type).wrapping_sub(CASPER_ENTER as usize)) {
            return Some(own);
        }
        self.lineage(process).find_map(|(_, process)| process.types.get(&event_type))
    }

    /// The types of a name, in any process: `name`, or a number.
    pub fn types_named(&self, name: &str) -> Vec<&EventType> {
        let number: Option<u16> = name.parse().ok();
        let own = OWN.iter();
        let all = self.processes.values().flat_map(|process| process.types.values()).chain(own);
        all.filter(|found| found.name == name || Some(found.event_type) == number).collect()
    }

    /// Names of all types that programs registered.
    pub fn type_names(&self) -> Vec<&str> {
        let all = self.processes.values().flat_map(|process| process.types.values());
        let mut names: Vec<&str> = all.map(|found| found.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// A function that `insert` numbered.
    pub fn function(&self, process: u32, number: u32) -> Option<&Function> {
        self.lineage(process).find_map(|(_, process)| process.functions.get(&number))
    }

    /// Whether a process has functions or modules that its parent had not when it forked.
    pub fn has_own_tables(&self, process: u32) -> bool {
        let own = |process: &Process| !process.functions.is_empty() || !process.modules.is_empty();
        self.processes.get(&process).is_some_and(own)
    }

    /// The address of code of which only the low 32 bits were recorded.
    pub fn whole_address(&self, process: u32, low: u32) -> Option<u64> {
        self.lineage(process).find_map(|(_, process)| {
            process.modules.iter().rev().find_map(|module| {
                let offset = low.wrapping_sub(module.start as u32);
                let address = module.start.checked_add(u64::from(offset))?;
                (address < module.end).then_some(address)
            })
        })
    }

    /// The file that was mapped at an address. What was loaded last is looked at first.
    pub fn module(&self, process: u32, address: u64) -> Option<&Module> {
        let holds = |module: &&Module| module.start <= address && address < module.end;
        self.lineage(process).find_map(|(_, process)| process.modules.iter().rev().find(holds))
    }

    /// The name of a thread.
    pub fn thread(&self, process: u32, tid: u32) -> Option<&str> {
        self.processes.get(&process)?.threads.get(&tid).map(String::as_str)
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(text(bytes)).into_owned()
}
