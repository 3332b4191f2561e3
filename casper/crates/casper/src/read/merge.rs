// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All streams in the order of time, with one chunk of each stream that is active in memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::damage::Damage;
use super::{Clock, Owner, ReadError, Record, Trace};
use crate::meta::Metadata;
use crate::record::*;
use crate::walk::{End, records};
use crate::write::chunk_crc;

/// Where a chunk is; made by a first pass, which checks it.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    base_ticks: u64,
}

/// A stream on its way through the trace.
#[derive(Debug, Default)]
struct Stream {
    /// Its chunks, the next one last.
    places: Vec<Place>,
    head: Option<casper_chunk>,
    owner: Owner,
    payload: Vec<u8>,
    /// Where the next record begins in it.
    at: usize,
}

/// The records of a trace in the order of time. `next` lends each until it is called again.
#[derive(Debug)]
pub struct Merge<'t> {
    trace: &'t Trace,
    clock: Clock,
    metadata: Metadata,
    damage: Damage,
    streams: Vec<Stream>,
    /// When each stream goes on: its next record's time or, while that is on disk, its chunk's.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<'t> Merge<'t> {
    pub(super) fn new(trace: &'t Trace) -> Result<Self, ReadError> {
        let mut metadata = Metadata::default();
        let mut numbers = HashMap::new();
        let mut streams: Vec<Stream> = Vec::new();
        let mut chunks = trace.chunks();
        while let Some(chunk) = chunks.next()? {
            match chunk.head.kind {
                CASPER_CHUNK_META => metadata.add(chunk.payload),
                CASPER_CHUNK_DATA => {
                    let number = *numbers.entry(chunk.head.stream).or_insert_with(|| {
                        streams.push(Stream::default());
                        streams.len() - 1
                    });
                    let (offset, base_ticks) = (chunk.offset, chunk.head.base_ticks);
                    streams[number].places.push(Place { offset, base_ticks });
                }
                _ => {}
            }
        }
        let damage = chunks.damage();
        let mut heap = BinaryHeap::with_capacity(streams.len());
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.places.reverse();
            if let Some(place) = stream.places.last() {
                heap.push(Reverse((place.base_ticks, number as u32)));
            }
        }
        Ok(Merge { trace, clock: trace.clock(), metadata, damage, streams, heap })
    }

    /// What is known about processes, types, functions and modules.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// What is wrong with the trace.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// The next event; `None` at the end. Notes are followed and left out.
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        loop {
            let Some(mut top) = self.heap.peek_mut() else { return Ok(None) };
            let Reverse((_, number)) = *top;
            let stream = &mut self.streams[number as usize];
            let Some(head) = stream.head else {
                if !stream.load(self.trace)? {
                    std::collections::binary_heap::PeekMut::pop(top);
                } else {
                    *top = Reverse((stream.next_ticks(), number));
                }
                continue;
            };
            let mut walk = records(&stream.payload[stream.at..], head.base_ticks);
            let Some(raw) = walk.next() else {
                if matches!(walk.end(), Some(End::Damaged { .. })) {
                    self.damage.bad_records += 1;
                }
                stream.head = None;
                *top = Reverse((stream.next_ticks(), number));
                continue;
            };
            let from = stream.at + WORD_BYTES;
            let (ticks, event_type, length) = (raw.ticks, raw.event_type(), raw.bytes.len());
            let switch = if u32::from(event_type) == CASPER_SWITCH {
                raw.read::<casper_switch>()
            } else {
                None
            };
            stream.at += walk.offset();
            *top = Reverse((stream.next_ticks(), number));
            drop(top);
            if is_note(event_type) {
                if let Some(to) = switch {
                    stream.owner = Owner { process: to.process, pid: to.pid, tid: to.tid };
                }
                continue;
            }
            let stream = &self.streams[number as usize];
            return Ok(Some(Record {
                ticks,
                time_ns: self.clock.ns(ticks),
                owner: stream.owner,
                stream: head.stream,
                level: head.level,
                event_type,
                bytes: &stream.payload[from..from + length],
                schema: self.metadata.event_type(stream.owner.process, event_type),
            }));
        }
    }
}

impl Stream {
    /// When the stream goes on.
    fn next_ticks(&self) -> u64 {
        match self.head {
            Some(head) => {
                records(&self.payload[self.at..], head.base_ticks).next().map_or(0, |raw| raw.ticks)
            }
            None => self.places.last().map_or(0, |place| place.base_ticks),
        }
    }

    /// Read the next chunk that is still as the first pass found it. False: there is none.
    fn load(&mut self, trace: &Trace) -> Result<bool, ReadError> {
        while let Some(place) = self.places.pop() {
            let io = |source| ReadError::Io {
                path: trace.path().to_owned(),
                offset: place.offset,
                source,
            };
            let mut bytes = [0; CHUNK_BYTES];
            if trace.source.read_at(&mut bytes, place.offset).map_err(io)? < CHUNK_BYTES {
                continue; // truncated meanwhile
            }
            let head: casper_chunk = zerocopy::transmute!(bytes);
            if head.magic != CASPER_CHUNK_MAGIC || head.size > CASPER_CHUNK_MAX {
                continue;
            }
            self.payload.clear();
            self.payload.resize(head.size as usize, 0);
            let at = place.offset + CHUNK_BYTES as u64;
            let got = trace.source.read_at(&mut self.payload, at).map_err(io)?;
            if got < self.payload.len() || chunk_crc(&head, &self.payload) != head.crc {
                continue;
            }
            self.owner = Owner { process: head.process, pid: head.pid, tid: head.tid };
            self.at = 0;
            self.head = Some(head);
            return Ok(true);
        }
        self.payload = Vec::new();
        Ok(false)
    }
}
