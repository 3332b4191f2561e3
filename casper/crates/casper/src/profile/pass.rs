// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pass over a trace.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::events::TypeCount;
use super::fields::Counter;
use super::functions::{Functions, Overhead};
use super::lane::{Call, Lane};
use super::pairs::Pairs;
use super::watch::{Place, Watcher};
use super::{CpuCount, Profile, ProfileError, ProfileSettings};
use crate::meta::Metadata;
use crate::read::{Chunk, Clock, Owner, Record, Trace};
use crate::record::*;
use crate::walk::{End, Raw};

/// A stream, and the processes in it: more than one after a vfork.
#[derive(Debug, Default)]
struct Stream {
    lanes: Vec<Lane>,
    current: usize,
    last_ticks: u64,
    dropped: u64,
    number: u32,
    level: u32,
    /// The last `CASPER_CPU`, and events since.
    cpu: Option<u32>,
    on_cpu: u64,
}

/// What the pass adds up.
struct Pass<'m, 'w> {
    settings: &'m ProfileSettings,
    metadata: &'m Metadata,
    clock: Clock,
    watcher: Option<&'w mut dyn Watcher>,
    functions: Functions,
    /// Of lanes that ended.
    types: Vec<TypeCount>,
    pairs: Pairs,
    field: Option<Counter>,
    /// Whether an event of the developers' is looked at more closely.
    curious: bool,
    backwards: u64,
    cpus: BTreeMap<u32, CpuCount>,
}

pub(super) fn run(
    trace: &Trace,
    settings: &ProfileSettings,
    watcher: Option<&mut dyn Watcher>,
) -> Result<Profile, ProfileError> {
    let metadata = trace.metadata()?;
    let clock = trace.clock();
    let field = match &settings.field {
        Some((event, field)) => Some(Counter::new(&metadata, event, field)?),
        None => None,
    };
    let pairs = Pairs::new(&metadata, &settings.pairs)?;
    let mut functions = Functions::new(Overhead::of(trace.header(), &clock));
    functions.steps = watcher.is_some().then(Vec::new);
    let mut pass = Pass {
        settings,
        metadata: &metadata,
        clock,
        functions,
        types: Vec::new(),
        pairs,
        curious: !settings.pairs.is_empty() || field.is_some() || watcher.is_some(),
        watcher,
        field,
        backwards: 0,
        cpus: BTreeMap::new(),
    };
    let mut streams: FxHashMap<u32, Stream> = FxHashMap::default();
    let mut chunks = trace.chunks();
    while let Some(chunk) = chunks.next()? {
        if chunk.head.kind != CASPER_CHUNK_DATA {
            continue;
        }
        if pass.watcher.as_ref().is_some_and(|watcher| watcher.is_done()) {
            break;
        }
        let stream = streams.entry(chunk.head.stream).or_default();
        (stream.number, stream.level) = (chunk.head.stream, chunk.head.level);
        if !pass.chunk(stream, &chunk) {
            chunks.bad_records();
        }
    }
    let damage = chunks.damage();

    for stream in streams.values_mut() {
        pass.leave_cpu(stream);
        for lane in &mut stream.lanes {
            lane.finish(&mut pass.functions, stream.last_ticks);
            pass.tell(&lane.place);
            pass.pairs.account(&lane.pending);
            pass.types.extend(lane.counts(&metadata));
        }
    }
    pass.types.sort_by_key(|of| (of.owner, of.event_type, of.first));
    let Pass { mut functions, types, pairs, field, backwards, cpus, .. } = pass;
    functions.name_all(&metadata);
    Ok(Profile {
        clock,
        damage,
        functions,
        types,
        pairs: pairs.list.into_iter().map(|(_, _, times)| times).collect(),
        field: field.map(Counter::finish),
        backwards,
        cpus,
        metadata,
    })
}

impl Pass<'_, '_> {
    /// Add the records of a chunk. False: they ended in something that no program wrote.
    fn chunk(&mut self, stream: &mut Stream, chunk: &Chunk<'_>) -> bool {
        if chunk.after_loss {
            self.lost(stream, stream.last_ticks);
        }
        let head = &chunk.head;
        let owner = Owner { process: head.process, pid: head.pid, tid: head.tid };
        if stream.lanes.get(stream.current).is_none_or(|lane| lane.owner.process != owner.process) {
            self.switch(stream, owner, stream.last_ticks);
        }
        let mut walk = chunk.records();
        let mut last = stream.last_ticks;
        // The lane stays out of `stream` while its process does.
        while let Some(lane) = stream.lanes.get_mut(stream.current) {
            let note = loop {
                let Some(raw) = walk.next() else { break None };
                let event_type = raw.event_type();
                if is_note(event_type) {
                    break Some(raw);
                }
                if raw.ticks < last {
                    self.backwards += 1;
                }
                stream.on_cpu += 1;
                if lane.selected {
                    self.event(lane, &raw, event_type, last);
                }
                last = raw.ticks;
            };
            let Some(note) = note else { break };
            self.note(stream, &note, last);
        }
        stream.last_ticks = last;
        !matches!(walk.end(), Some(End::Damaged { .. }))
    }

    #[inline(always)]
    fn event(&mut self, lane: &mut Lane, raw: &Raw<'_>, event_type: u16, last: u64) {
        let ticks = raw.ticks;
        lane.count(event_type, raw.bytes.len(), ticks);
        match u32::from(event_type) {
            CASPER_ENTER => {
                let Some(enter) = raw.read::<casper_enter>() else { return };
                let id = u64::from(enter.function);
                let call = Call {
                    function: self.functions.index(self.metadata, lane.image, 0, id),
                    kind: 0,
                    frame: u64::from(enter.frame_high) << 32 | u64::from(enter.frame_low),
                    site: u64::from(enter.call_site),
                    ticks,
                };
                lane.enter(&mut self.functions, call, last);
            }
            CASPER_EXIT => {
                let Some(exit) = raw.read::<casper_exit>() else { return };
                let id = u64::from(exit.function);
                let function = self.functions.index(self.metadata, lane.image, 0, id);
                lane.exit(&mut self.functions, function, ticks, last);
            }
            CASPER_ENTER_ADDRESS => {
                let Some(enter) = raw.read::<casper_enter_address>() else { return };
                let id = enter.function;
                let call = Call {
                    function: self.functions.index(self.metadata, lane.image, 1, id),
                    kind: 1,
                    frame: u64::from(enter.frame_high) << 32 | u64::from(enter.frame_low),
                    site: enter.call_site,
                    ticks,
                };
                lane.enter(&mut self.functions, call, last);
            }
            CASPER_EXIT_ADDRESS => {
                let Some(exit) = raw.read::<casper_exit_address>() else { return };
                let id = exit.function;
                let function = self.functions.index(self.metadata, lane.image, 1, id);
                lane.exit(&mut self.functions, function, ticks, last);
            }
            _ => lane.event_cost(&self.functions),
        }
        if self.curious {
            self.look(lane, raw, event_type);
        }
    }

    /// What `ProfileSettings` asks about each event.
    #[cold]
    fn look(&mut self, lane: &mut Lane, raw: &Raw<'_>, event_type: u16) {
        let process = lane.owner.process;
        self.pairs.see(&mut lane.pending, self.metadata, process, event_type, raw.ticks);
        if let Some(field) = &mut self.field {
            field.see(self.metadata, process, event_type, raw.bytes);
        }
        self.tell(&lane.place);
        if let Some(watcher) = &mut self.watcher
            && u32::from(event_type) < CASPER_TYPE_RESERVED
        {
            let record = Record {
                ticks: raw.ticks,
                time_ns: self.clock.ns(raw.ticks),
                owner: lane.owner,
                stream: lane.place.stream,
                level: lane.place.level,
                event_type,
                bytes: raw.bytes,
                schema: self.metadata.event_type(process, event_type),
            };
            watcher.event(&lane.place, &record);
        }
    }

    /// Tell the watcher which calls began and ended.
    fn tell(&mut self, place: &Place) {
        let Some(watcher) = &mut self.watcher else { return };
        let mut steps = self.functions.steps.take().unwrap_or_default();
        for step in steps.drain(..) {
            watcher.step(place, &step, &self.functions);
        }
        self.functions.steps = Some(steps);
    }

    /// Events of a stream were lost.
    #[cold]
    fn lost(&mut self, stream: &mut Stream, last: u64) {
        for lane in &mut stream.lanes {
            lane.lost(&mut self.functions, last);
            self.tell(&lane.place);
        }
    }

    #[cold]
    fn note(&mut self, stream: &mut Stream, raw: &Raw<'_>, last: u64) {
        match u32::from(raw.event_type()) {
            CASPER_SWITCH => {
                if let Some(to) = raw.read::<casper_switch>() {
                    let owner = Owner { process: to.process, pid: to.pid, tid: to.tid };
                    self.switch(stream, owner, last);
                }
            }
            CASPER_CPU => {
                let Some(on) = raw.read::<casper_cpu>() else { return };
                let moved = stream.cpu.is_some_and(|cpu| cpu != on.cpu);
                self.leave_cpu(stream);
                stream.cpu = Some(on.cpu);
                self.cpus.entry(on.cpu).or_default().arrivals += u64::from(moved);
            }
            CASPER_LOST => {
                let Some(lost) = raw.read::<casper_lost>() else { return };
                if lost.dropped != stream.dropped {
                    stream.dropped = lost.dropped;
                    self.lost(stream, last);
                }
            }
            _ => {}
        }
    }

    /// Account for the events since the last `CASPER_CPU`.
    fn leave_cpu(&mut self, stream: &mut Stream) {
        let events = std::mem::take(&mut stream.on_cpu);
        if let Some(cpu) = stream.cpu {
            self.cpus.entry(cpu).or_default().events += events;
        }
    }

    /// What follows is `owner`'s. A vfork's parent finds its stack as it left it; the child writes
    /// no more once its parent goes on.
    fn switch(&mut self, stream: &mut Stream, owner: Owner, last: u64) {
        if stream.current > 0 && owner.process == stream.lanes[0].owner.process {
            for mut lane in stream.lanes.drain(1..) {
                lane.finish(&mut self.functions, last);
                self.tell(&lane.place);
                self.pairs.account(&lane.pending);
                self.types.extend(lane.counts(self.metadata));
            }
        }
        let found = stream.lanes.iter().rposition(|lane| lane.owner.process == owner.process);
        stream.current = found.unwrap_or_else(|| {
            let own = self.metadata.has_own_tables(owner.process);
            let image = if own { owner.process } else { self.metadata.image(owner.process) };
            let place = Place { stream: stream.number, level: stream.level, owner };
            stream.lanes.push(Lane::new(
                place,
                image,
                self.settings.pid.is_none_or(|pid| pid == owner.pid),
            ));
            stream.lanes.len() - 1
        });
    }
}
