// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One process in one stream: its stack of functions, and its events.
//!
//! What a longjmp left is told by frame addresses. A frame strictly below that of a function that
//! begins is dead: stacks grow down. One at the same address is either dead, or the function that
//! begins was compiled into it, and shares its frame; it stays until something shows that it was
//! dead (a return address that is not the new one's does), and then counts up to the last event
//! before.

use super::events::TypeCount;
use super::functions::{Ended, Function, Functions, MILLI, MOST_DISTRIBUTIONS, NOBODY, Step};
use super::pairs::Pending;
use super::watch::Place;
use crate::meta::Metadata;
use crate::read::Owner;

/// Frames of one stack; a deeper one is counted, not followed.
const DEEPEST: usize = 1 << 20;
/// A new frame that is further away than this is on another stack: a coroutine's, a handler's.
const ONE_STACK_BYTES: u64 = 16 << 20;
/// Frames at one address; what is compiled into itself more often is a loop of longjmps.
const MOST_AT_ONE_ADDRESS: usize = 64;
/// Longer than this is taken for this.
const LONGEST_TICKS: u64 = 1 << 52;

#[derive(Debug, Clone, Copy)]
struct Frame {
    enter_ticks: u64,
    /// The stream's last event before.
    before_ticks: u64,
    address: u64,
    /// Where it returns to.
    site: u64,
    /// Durations of the functions that it called, with the probes' cost.
    callees_ticks: u64,
    /// The probes' cost in its duration, apart from its own, in thousandths.
    all_overhead: i64,
    /// The same without what is in the durations of what it called.
    own_overhead: i64,
    function: u32,
    edge: u32,
    outermost: bool,
    kind: u8,
}

/// Counts of one type of events.
#[derive(Debug, Clone, Copy)]
pub(super) struct TypeSlot {
    pub event_type: u16,
    pub count: u64,
    pub bytes: u64,
    pub first: u64,
    pub last: u64,
}

/// A process in a stream.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub owner: Owner,
    /// What a watcher is told.
    pub place: Place,
    /// The process whose functions these are.
    pub image: u32,
    pub types: Vec<TypeSlot>,
    recent_types: [(u16, u32); 8],
    pub pending: Vec<Pending>,
    /// Whether its events are wanted.
    pub selected: bool,
    frames: Vec<Frame>,
    /// Activations of each function in `frames`, for the first functions; others are searched.
    active: Vec<u32>,
    /// Functions that began above the deepest frame and did not end.
    beyond: u64,
}

/// Functions whose activations are counted by index.
const COUNTED: usize = 1 << 16;

impl Lane {
    pub fn new(place: Place, image: u32, selected: bool) -> Lane {
        Lane { owner: place.owner, place, image, selected, ..Lane::default() }
    }

    /// Count an event.
    #[inline]
    pub fn count(&mut self, event_type: u16, bytes: usize, ticks: u64) {
        let place = usize::from(event_type) % 8;
        let (recent, slot) = self.recent_types[place];
        let slot = match self.types.get_mut(slot as usize) {
            Some(found) if recent == event_type && found.event_type == event_type => found,
            _ => self.slot(event_type, ticks),
        };
        slot.count += 1;
        slot.bytes += bytes as u64;
        slot.last = ticks;
    }

    #[cold]
    fn slot(&mut self, event_type: u16, ticks: u64) -> &mut TypeSlot {
        let found = self.types.iter().position(|slot| slot.event_type == event_type);
        let index = found.unwrap_or_else(|| {
            self.types.push(TypeSlot { event_type, count: 0, bytes: 0, first: ticks, last: ticks });
            self.types.len() - 1
        });
        self.recent_types[usize::from(event_type) % 8] = (event_type, index as u32);
        &mut self.types[index]
    }

    /// Its events, by type.
    pub fn counts(&self, metadata: &Metadata) -> impl Iterator<Item = TypeCount> {
        self.types.iter().map(|slot| TypeCount {
            owner: self.owner,
            event_type: slot.event_type,
            name: metadata
                .event_type(self.owner.process, slot.event_type)
                .map(|found| found.name.clone()),
            count: slot.count,
            bytes: slot.bytes,
            first: slot.first,
            last: slot.last,
        })
    }

    /// The developers' own events cost their function time.
    #[inline]
    pub fn event_cost(&mut self, functions: &Functions) {
        if let Some(top) = self.frames.last_mut() {
            top.all_overhead = top.all_overhead.saturating_add(functions.overhead.event);
            top.own_overhead = top.own_overhead.saturating_add(functions.overhead.event);
        }
    }

    /// A function began. `last_ticks`: the stream's event before.
    #[inline]
    pub fn enter(&mut self, functions: &mut Functions, call: Call, last_ticks: u64) {
        if call.frame != 0 {
            self.leave_dead(functions, &call, last_ticks);
        }
        let caller = self.frames.last().map_or(NOBODY, |top| top.function);
        let edge = functions.call(caller, call.function, call.site, self.owner.process);
        if self.frames.len() >= DEEPEST {
            self.beyond += 1;
            return;
        }
        let outermost = self.activate(call.function);
        if !outermost {
            functions.list[call.function as usize].recursive += 1;
        }
        self.frames.push(Frame {
            enter_ticks: call.ticks,
            before_ticks: last_ticks,
            address: call.frame,
            site: call.site,
            callees_ticks: 0,
            all_overhead: 0,
            own_overhead: 0,
            function: call.function,
            edge,
            outermost,
            kind: call.kind,
        });
        if let Some(steps) = &mut functions.steps {
            steps.push(Step::Began { function: call.function, ticks: call.ticks });
        }
    }

    /// Whether this is the function's first activation in the stack.
    #[inline]
    fn activate(&mut self, function: u32) -> bool {
        let index = function as usize;
        if index >= COUNTED {
            return !self.frames.iter().any(|frame| frame.function == function);
        }
        if index >= self.active.len() {
            self.active.resize((index + 1).next_power_of_two(), 0);
        }
        self.active[index] += 1;
        self.active[index] == 1
    }

    /// A function ended.
    #[inline]
    pub fn exit(&mut self, functions: &mut Functions, function: u32, ticks: u64, last_ticks: u64) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        match self.frames.last() {
            Some(top) if top.function == function => self.close(functions, ticks, Ended::Returned),
            _ => self.exit_below(functions, function, ticks, last_ticks),
        }
    }

    #[cold]
    fn exit_below(&mut self, functions: &mut Functions, function: u32, ticks: u64, last: u64) {
        let is_counted_out = self.active.get(function as usize).is_some_and(|&count| count == 0);
        let found = if is_counted_out {
            None
        } else {
            self.frames.iter().rposition(|frame| frame.function == function)
        };
        match found {
            Some(place) => {
                self.leave_above(functions, place + 1, last);
                self.close(functions, ticks, Ended::Returned);
            }
            None => functions.list[function as usize].exits_without_enter += 1,
        }
    }

    /// Close the frames that a function which begins shows to be dead.
    #[inline]
    fn leave_dead(&mut self, functions: &mut Functions, call: &Call, last_ticks: u64) {
        let Some(top) = self.frames.last() else { return };
        if top.address > call.frame || top.address == 0 {
            return;
        }
        self.leave_dead_slowly(functions, call, last_ticks);
    }

    #[cold]
    fn leave_dead_slowly(&mut self, functions: &mut Functions, call: &Call, last_ticks: u64) {
        let address = call.frame;
        let dead = |frame: &Frame| {
            frame.address != 0
                && frame.address < address
                && address - frame.address < ONE_STACK_BYTES
        };
        let mut keep = self.frames.len();
        while keep > 0 && dead(&self.frames[keep - 1]) {
            keep -= 1;
        }
        // What was compiled into a frame returns where that does; what returns elsewhere is another.
        let elsewhere = |frame: &Frame| frame.kind == call.kind && frame.site != call.site;
        while keep > 0
            && self.frames[keep - 1].address == address
            && elsewhere(&self.frames[keep - 1])
        {
            keep -= 1;
        }
        let here = self.frames[..keep].iter().rev();
        let same = here.take_while(|frame| frame.address == address).take(MOST_AT_ONE_ADDRESS);
        if same.count() == MOST_AT_ONE_ADDRESS {
            while keep > 0 && self.frames[keep - 1].address == address {
                keep -= 1;
            }
        }
        self.leave_above(functions, keep, last_ticks);
    }

    /// A longjmp left all frames from index `keep` on.
    fn leave_above(&mut self, functions: &mut Functions, keep: usize, last_ticks: u64) {
        let mut end = last_ticks;
        while self.frames.len() > keep {
            let frame = self.frames[self.frames.len() - 1];
            let below = self.frames.len().checked_sub(2).map(|index| self.frames[index]);
            self.close(functions, end, Ended::Left);
            if below.is_some_and(|below| below.address == frame.address && frame.address != 0) {
                end = frame.before_ticks;
            }
        }
    }

    /// End the top frame.
    #[inline]
    fn close(&mut self, functions: &mut Functions, ticks: u64, ended: Ended) {
        let Some(frame) = self.frames.pop() else { return };
        if let Some(count) = self.active.get_mut(frame.function as usize) {
            *count = count.saturating_sub(1);
        }
        let raw = ticks.saturating_sub(frame.enter_ticks).min(LONGEST_TICKS);
        if let Some(steps) = &mut functions.steps {
            steps.push(Step::Ended {
                function: frame.function,
                began_ticks: frame.enter_ticks,
                ticks: frame.enter_ticks.saturating_add(raw),
                depth: self.frames.len() as u32,
                ended,
            });
        }
        let own_raw = raw.saturating_sub(frame.callees_ticks);
        let kind = usize::from(frame.kind & 1);
        let (inner, outer) = (functions.overhead.inner[kind], functions.overhead.outer[kind]);
        let span = raw as i64 * MILLI;
        let corrected = span.saturating_sub(inner).saturating_sub(frame.all_overhead);
        let own = (own_raw as i64 * MILLI).saturating_sub(inner).saturating_sub(frame.own_overhead);

        let distribution = (frame.function as usize) < MOST_DISTRIBUTIONS;
        let function: &mut Function = &mut functions.list[frame.function as usize];
        function.own += i128::from(own);
        function.own_raw_ticks += u128::from(own_raw);
        if frame.outermost {
            function.inclusive += i128::from(corrected);
            function.inclusive_raw_ticks += u128::from(raw);
        }
        if ended == Ended::Returned {
            function.milliticks += i128::from(corrected);
            function.raw_ticks += u128::from(raw);
            let rounded = (corrected.max(0) as u64 + MILLI as u64 / 2) / MILLI as u64;
            function.times.add(rounded, distribution);
            if let Some(edge) = functions.edges.get_mut(frame.edge as usize) {
                edge.milliticks += i128::from(corrected);
            }
        } else {
            function.left_by_longjmp += 1;
        }
        if let Some(caller) = self.frames.last_mut() {
            caller.callees_ticks = caller.callees_ticks.saturating_add(raw);
            caller.all_overhead =
                caller.all_overhead.saturating_add(frame.all_overhead).saturating_add(outer);
            caller.own_overhead = caller.own_overhead.saturating_add(outer - inner);
        }
    }

    /// Events were lost: nobody knows which of the open functions ended meanwhile.
    #[cold]
    pub fn lost(&mut self, functions: &mut Functions, last_ticks: u64) {
        self.drop_frames(functions, last_ticks, Ended::CutByLoss);
        for pending in &mut self.pending {
            pending.clear();
        }
    }

    /// Nothing more will come.
    pub fn finish(&mut self, functions: &mut Functions, last_ticks: u64) {
        self.drop_frames(functions, last_ticks, Ended::Open);
        for pending in &mut self.pending {
            pending.clear();
        }
    }

    fn drop_frames(&mut self, functions: &mut Functions, last_ticks: u64, ended: Ended) {
        while let Some(frame) = self.frames.pop() {
            let function = &mut functions.list[frame.function as usize];
            match ended {
                Ended::CutByLoss => function.cut_by_loss += 1,
                _ => function.still_open += 1,
            }
            if let Some(steps) = &mut functions.steps {
                steps.push(Step::Ended {
                    function: frame.function,
                    began_ticks: frame.enter_ticks,
                    ticks: last_ticks.max(frame.enter_ticks),
                    depth: self.frames.len() as u32,
                    ended,
                });
            }
        }
        self.active.clear();
        self.beyond = 0;
    }
}

/// The beginning of a function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub function: u32,
    pub kind: u8,
    pub frame: u64,
    pub site: u64,
    pub ticks: u64,
}
