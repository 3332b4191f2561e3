// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of a trace: which there are, and what was added up for each.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::Moments;
use crate::meta::Metadata;
use crate::read::Clock;
use crate::record::*;
use crate::symbol::{Symbol, Symbols};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It returned.
    Returned,
    /// A longjmp left it; its end is the last event before that was seen.
    Left,
    /// Events were lost meanwhile: the end is that of what is known.
    CutByLoss,
    /// It had not ended at the trace's or its process's end.
    Open,
}

/// A call begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It begins.
    Began {
        /// Index in [`Functions::list`].
        function: u32,
        /// When.
        ticks: u64,
    },
    /// The innermost call of the place ends.
    Ended {
        /// Index in [`Functions::list`].
        function: u32,
        /// When it began.
        began_ticks: u64,
        /// When it ended.
        ticks: u64,
        /// Calls around it.
        depth: u32,
        /// How.
        ended: Ended,
    },
}

/// Functions beyond these are counted together, as the first of the list.
pub const MOST_FUNCTIONS: usize = 1 << 20;
/// Functions beyond these have no percentiles.
pub const MOST_DISTRIBUTIONS: usize = 1 << 14;
/// Pairs of caller and call site beyond these are not counted.
pub const MOST_EDGES: usize = 1 << 20;
/// No caller.
pub const NOBODY: u32 = u32::MAX;

/// Thousandths of a tick: what the probes' own cost is counted in.
pub(super) const MILLI: i64 = 1000;

/// What the probes themselves cost, in thousandths of a tick; 0 where it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Whether the header says it for the functions that `insert` instruments.
    pub calls_known: bool,
    /// The same for -finstrument-functions.
    pub addresses_known: bool,
    pub(super) event: i64,
    pub(super) inner: [i64; 2],
    pub(super) outer: [i64; 2],
}

impl Overhead {
    pub(super) fn of(header: &casper_file, clock: &Clock) -> Overhead {
        // What a header says beyond a second a call is nonsense.
        let milli = |ps: u64| {
            let ps = known(ps).filter(|&ps| ps < 1_000_000_000_000)?;
            Some((clock.ticks_of_ps(ps as f64) * MILLI as f64).min(1e15).round() as i64)
        };
        let pair = |inner, outer| milli(inner).zip(milli(outer));
        let calls = pair(header.call_inner_ps, header.call_outer_ps);
        let addresses = pair(header.address_inner_ps, header.address_outer_ps);
        let [(inner, outer), (inner_address, outer_address)] =
            [calls, addresses].map(Option::unwrap_or_default);
        Overhead {
            calls_known: calls.is_some(),
            addresses_known: addresses.is_some(),
            event: milli(header.event_ps).unwrap_or(0),
            inner: [inner, inner_address],
            outer: [outer, outer_address],
        }
    }
}

/// A function, and what was added up for it. Times are ticks.
#[derive(Debug, Clone, Default)]
pub struct Function {
    /// Its name, as far as it is known.
    pub name: String,
    /// Its source file.
    pub file: Option<String>,
    /// The line where it begins.
    pub line: Option<u32>,
    /// The file that it was mapped from, if only its address was recorded.
    pub module: Option<String>,
    /// 1: reported by -finstrument-functions, else 0.
    pub(super) kind: u8,
    /// A process and an address or number by which to find its name.
    found_in: (u32, u64),
    /// Calls that began.
    pub calls: u64,
    /// Of these, by the function itself, directly or not.
    pub recursive: u64,
    /// Calls that returned: their durations without the probes' cost.
    pub times: Moments,
    /// The sum of these with the probes' cost.
    pub raw_ticks: u128,
    /// The sum without it in thousandths, before durations below 0 were made 0.
    pub(super) milliticks: i128,
    /// Time in it and in what it called; of recursive calls only the outermost.
    pub(super) inclusive: i128,
    /// The same with the probes' cost.
    pub inclusive_raw_ticks: u128,
    /// Time in it alone, in thousandths.
    pub(super) own: i128,
    /// The same with the probes' cost.
    pub own_raw_ticks: u128,
    /// Calls that a longjmp left. Their time, up to their last event, is in the sums alone.
    pub left_by_longjmp: u64,
    /// Calls that had not returned at the trace's or their process's end.
    pub still_open: u64,
    /// Calls during which events were lost, so that nobody knows their end.
    pub cut_by_loss: u64,
    /// Returns without a beginning: it began before the recording, before a fork, or was lost.
    pub exits_without_enter: u64,
    /// The edge that was used last, to spare a look-up.
    pub(super) last_edge: (u32, u64, u32),
}

impl Function {
    /// Sum of the durations of calls that returned, without the probes' cost.
    pub fn total_ticks(&self) -> f64 {
        (self.milliticks.max(0) / i128::from(MILLI)) as f64
    }

    /// The mean duration without the probes' cost.
    pub fn mean_ticks(&self) -> Option<f64> {
        let count = self.times.count;
        (count > 0).then(|| self.milliticks.max(0) as f64 / MILLI as f64 / count as f64)
    }

    /// The mean duration with the probes' cost.
    pub fn raw_mean_ticks(&self) -> Option<f64> {
        (self.times.count > 0).then(|| self.raw_ticks as f64 / self.times.count as f64)
    }

    /// Time in it and in what it called, without the probes' cost.
    pub fn inclusive_ticks(&self) -> f64 {
        self.inclusive.max(0) as f64 / MILLI as f64
    }

    /// Time in it alone, without the probes' cost.
    pub fn own_ticks(&self) -> f64 {
        self.own.max(0) as f64 / MILLI as f64
    }
}

/// Calls of a function from one place.
#[derive(Debug, Clone, Default)]
pub struct Edge {
    /// Index of the calling function; `None`: not instrumented, or begun before the recording.
    pub caller: Option<usize>,
    /// Index of the called one.
    pub callee: usize,
    /// The return address, or its low 32 bits.
    pub call_site: u64,
    /// Calls.
    pub calls: u64,
    /// Durations of those that returned, without the probes' cost, in thousandths of a tick.
    pub(super) milliticks: i128,
    /// The return address's process, and whether it is whole.
    process: u32,
    is_whole: bool,
}

impl Edge {
    /// Where the call stands: `file:line`, or the address that it returns to.
    pub fn place(&self, metadata: &Metadata, symbols: &mut Symbols) -> String {
        let address = if self.is_whole {
            Some(self.call_site)
        } else {
            metadata.whole_address(self.process, self.call_site as u32)
        };
        let Some(address) = address else { return format!("…{:08x}", self.call_site) };
        // The call itself stands before the place that it returns to.
        let symbol = symbols.at(metadata, self.process, address.saturating_sub(1));
        match (symbol.file, symbol.line) {
            (Some(file), Some(line)) => {
                let file = file.rsplit('/').next().unwrap_or(&file);
                format!("{file}:{line}")
            }
            _ if symbol.module.is_some() => symbol.name,
            _ => format!("{address:#x}"),
        }
    }

    /// Time in these calls, without the probes' cost.
    pub fn ticks(&self) -> f64 {
        self.milliticks.max(0) as f64 / MILLI as f64
    }
}

/// All functions and the edges between them.
#[derive(Debug)]
pub struct Functions {
    /// The functions. The first stands for those beyond [`MOST_FUNCTIONS`].
    pub list: Vec<Function>,
    /// Who called whom, from where.
    pub edges: Vec<Edge>,
    /// Calls that are in no edge, since there were too many.
    pub calls_without_edge: u64,
    /// What the probes cost.
    pub overhead: Overhead,
    by_key: FxHashMap<(u32, u8, u64), u32>,
    by_identity: HashMap<Identity, u32>,
    by_edge: FxHashMap<(u32, u32, u64), u32>,
    recent: Vec<((u32, u8, u64), u32)>,
    /// Calls that began or ended since a watcher was told; only where there is one.
    pub(super) steps: Option<Vec<Step>>,
}

/// What makes functions of different processes the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Identity {
    Named { name: String, file: String, line: u32 },
    InFile { path: String, build_id: Vec<u8>, address: u64 },
}

const RECENT: usize = 1 << 10;

impl Functions {
    pub(super) fn new(overhead: Overhead) -> Functions {
        let others = Function { name: "(others)".to_owned(), ..Function::default() };
        Functions {
            list: vec![others],
            edges: Vec::new(),
            calls_without_edge: 0,
            overhead,
            by_key: FxHashMap::default(),
            by_identity: HashMap::new(),
            by_edge: FxHashMap::default(),
            recent: vec![((0, u8::MAX, 0), 0); RECENT],
            steps: None,
        }
    }

    /// The index of a function: in `image`, of a kind, by number or address.
    #[inline]
    pub(super) fn index(&mut self, metadata: &Metadata, image: u32, kind: u8, id: u64) -> u32 {
        let key = (image, kind, id);
        let mixed = (id ^ u64::from(image).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed >> 52) as usize % RECENT;
        let (recent, index) = self.recent[place];
        if recent == key {
            return index;
        }
        let index = self.look_up(metadata, key);
        self.recent[place] = (key, index);
        index
    }

    #[cold]
    fn look_up(&mut self, metadata: &Metadata, key: (u32, u8, u64)) -> u32 {
        if let Some(&index) = self.by_key.get(&key) {
            return index;
        }
        if self.by_key.len() >= MOST_FUNCTIONS {
            return 0;
        }
        let (image, kind, id) = key;
        let mut function = Function { kind, found_in: (image, id), ..Function::default() };
        function.last_edge = (NOBODY, 0, NOBODY);
        let identity = if kind == 0 {
            metadata.function(image, id as u32).map(|found| {
                function.name.clone_from(&found.name);
                function.file = Some(found.file.clone());
                function.line = Some(found.line);
                let (name, file) = (found.name.clone(), found.file.clone());
                Identity::Named { name, file, line: found.line }
            })
        } else {
            metadata.module(image, id).map(|module| Identity::InFile {
                path: module.path.clone(),
                build_id: module.build_id.clone(),
                address: id.wrapping_sub(module.bias),
            })
        };
        let next = self.list.len() as u32;
        let index = match identity {
            Some(identity) => *self.by_identity.entry(identity).or_insert(next),
            None => next,
        };
        if index == next {
            self.list.push(function);
        }
        self.by_key.insert(key, index);
        index
    }

    /// Count a call; the edge's index, for its end.
    #[inline]
    pub(super) fn call(&mut self, caller: u32, callee: u32, call_site: u64, process: u32) -> u32 {
        let function = &mut self.list[callee as usize];
        function.calls += 1;
        let (last_caller, last_site, last) = function.last_edge;
        let edge = if last != NOBODY && last_caller == caller && last_site == call_site {
            last
        } else {
            self.edge(caller, callee, call_site, process)
        };
        match self.edges.get_mut(edge as usize) {
            Some(edge) => edge.calls += 1,
            None => self.calls_without_edge += 1,
        }
        edge
    }

    fn edge(&mut self, caller: u32, callee: u32, call_site: u64, process: u32) -> u32 {
        let key = (caller, callee, call_site);
        let edge = match self.by_edge.get(&key) {
            Some(&edge) => edge,
            None if self.edges.len() >= MOST_EDGES => return NOBODY,
            None => {
                let index = self.edges.len() as u32;
                self.edges.push(Edge {
                    caller: (caller != NOBODY).then_some(caller as usize),
                    callee: callee as usize,
                    call_site,
                    process,
                    is_whole: self.list[callee as usize].kind == 1,
                    ..Edge::default()
                });
                self.by_edge.insert(key, index);
                index
            }
        };
        self.list[callee as usize].last_edge = (caller, call_site, edge);
        edge
    }

    /// Give names to functions of which only the address is known.
    pub(super) fn name_all(&mut self, metadata: &Metadata) {
        let mut symbols = Symbols::default();
        for index in 1..self.list.len() {
            let found = self.describe(index, metadata, &mut symbols);
            let function = &mut self.list[index];
            (function.name, function.file) = (found.name, found.file);
            (function.line, function.module) = (found.line, found.module);
        }
    }

    /// What a function is called, and where it is: also while a pass goes on.
    pub fn describe(&self, index: usize, metadata: &Metadata, symbols: &mut Symbols) -> Symbol {
        let function = &self.list[index];
        let (process, id) = function.found_in;
        if !function.name.is_empty() {
            let (name, file) = (function.name.clone(), function.file.clone());
            return Symbol { name, file, line: function.line, module: function.module.clone() };
        }
        if function.kind == 0 {
            let name = format!("function {id} of process {process}");
            return Symbol { name, file: None, line: None, module: None };
        }
        symbols.at(metadata, process, id)
    }

    /// Functions that were called or returned from.
    pub fn used(&self) -> impl Iterator<Item = (usize, &Function)> {
        let used = |f: &&Function| f.calls > 0 || f.exits_without_enter > 0;
        self.list.iter().enumerate().filter(move |(_, function)| used(function))
    }
}
