// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Empties the programs' buffers: what each stream recorded goes on in order, and what was dropped
//! or overwritten is counted.
//!
//! Programs can write anything into the memory. A word of theirs is read once and compared with what
//! the drain itself knows; one that breaks the rules of `record.h` closes the session, and what was
//! good until then is kept.

use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

use anyhow::Error;
use cowlab_casper::record::{
    CASPER_BUFFER_CLAIMED, CASPER_BUFFER_FREE, CASPER_BUFFER_HEADER_BYTES, casper_buffer,
    casper_session, casper_subbuf, casper_total,
};
use cowlab_casper::walk::{End, summary};
use cowlab_casper::write::DataChunk;
use zerocopy::{FromBytes, FromZeros};

use crate::owner::{Owner, Seen};
use crate::session::{META_STEP_BYTES, Session, WhenFull};

/// The least room that an event takes in a ring.
const EVENT_ROOM_BYTES: u64 = 16;
/// Entries whose writers were killed, or are at it. Far more than there can be.
const UNCOMMITTED_MAX: usize = 1 << 16;
/// Each leaves some bytes here and in the trace when it has ended.
const STREAMS_MAX: u32 = 1_000_000;
const SUBBUF_HEADER_BYTES: u64 = size_of::<casper_subbuf>() as u64;

pub trait Sink {
    /// Records of one sub-buffer, or of a part of it.
    fn data(&mut self, of: &DataChunk, payload: &[u8]);
    fn meta(&mut self, _entries: &[u8]) {}
    /// A thread records for the first time.
    fn thread(&mut self, _process: u32, _owner: &Owner) {}
}

/// A stream that is being drained.
#[derive(Debug)]
struct Stream {
    total: casper_total,
    owner: Owner,
    level: u32,
    /// Whose the next record is: process and pid.
    current: (u32, u32),
    /// Everything before this position was drained.
    position: u64,
    base_ticks: u64,
    first_event: u64,
}

/// Memory says what no rule of `record.h` allows.
struct Broken(String);

macro_rules! rule {
    ($holds:expr, $($otherwise:tt)*) => {
        if !$holds {
            return Err(Broken(format!($($otherwise)*)));
        }
    };
}

#[derive(Debug, Default)]
pub struct Drain {
    streams: Vec<Option<Stream>>,
    totals: Vec<casper_total>,
    scratch: Vec<u8>,
    meta_position: u64,
    begun: u32,
    /// The first rule that was broken.
    breach: Option<String>,
    closed: bool,
    /// Why programs get no more memory.
    no_memory: Option<Error>,
    /// Buffers that are not read any more.
    broken: Vec<u32>,
    /// Entries that were not committed when they were passed.
    uncommitted: Vec<(u64, u32)>,
}

macro_rules! field {
    ($buffer:expr, $field:ident) => {
        $buffer + offset_of!(casper_buffer, $field)
    };
}

impl Drain {
    /// What was stored and what was not, of each stream that has ended.
    pub fn totals(&self) -> &[casper_total] {
        &self.totals
    }

    pub fn streams(&self) -> u32 {
        self.begun
    }

    /// Which rule of its memory the session was closed for, if it was.
    pub fn breach(&self) -> Option<&str> {
        self.breach.as_deref()
    }

    /// Whether the session was closed before its end.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Why programs got no more memory, if they did not.
    pub fn take_no_memory(&mut self) -> Option<Error> {
        self.no_memory.take()
    }

    /// Pass on what there is. `last`: the recording is over, so that a flight recorder's buffers
    /// are taken as well. Returns the bytes of records that were passed on.
    pub fn round(&mut self, session: &Session, sink: &mut dyn Sink, last: bool) -> u64 {
        if self.closed {
            // Each time: a program may have opened it again.
            session.close();
            return 0;
        }
        let mut bytes = self.pass(session, sink, last);
        if !session.is_as_told() {
            self.broke("a program turned the recording on or off".to_owned());
        }
        if self.closed || self.breach.is_some() {
            self.closed = true;
            session.close();
            if !last {
                bytes += self.pass(session, sink, true);
            }
        }
        bytes
    }

    fn broke(&mut self, rule: String) {
        self.breach.get_or_insert(rule);
    }

    fn pass(&mut self, session: &Session, sink: &mut dyn Sink, last: bool) -> u64 {
        let mut bytes = 0;
        self.metadata(session, sink, last);
        let ready = session.buffers_ready();
        self.streams.resize_with(ready as usize, || None);
        let mut free = 0;
        for index in 0..ready {
            let state = session.word(field!(session.buffer_offset(index), state));
            if state == CASPER_BUFFER_FREE && self.streams[index as usize].is_none() {
                free += 1;
            } else if !self.broken.contains(&index) {
                bytes += self.buffer(session, sink, index, last);
            }
        }
        if !last {
            self.provide(session, free);
        }
        bytes
    }

    /// Memory for what programs will need. Without it they go on with the buffers that they have.
    fn provide(&mut self, session: &Session, free: u32) {
        let ready = session.buffers_ready();
        // Ahead of who starts threads or forks: half as many again as are in use.
        if free < 4 + ready / 4 && self.no_memory.is_none() {
            self.no_memory = session.provide_buffers(ready + 4 + ready / 2).err();
        }
        // They would wait for room for their metadata.
        if let Err(error) = session.provide_metadata(self.meta_position) {
            self.closed = true;
            self.no_memory.get_or_insert(error);
        }
    }

    fn buffer(&mut self, session: &Session, sink: &mut dyn Sink, index: u32, last: bool) -> u64 {
        let buffer = session.buffer_offset(index);
        let mut stream = match self.streams[index as usize].take() {
            Some(stream) => stream,
            // Claimed a moment ago, or by a program that was killed within that moment.
            None if session.word(field!(buffer, stream)) == 0 => return 0,
            None if self.begun == STREAMS_MAX => {
                self.broke(format!("more than {STREAMS_MAX} threads recorded"));
                return 0;
            }
            None => {
                self.begun += 1;
                Stream::begin(session, sink, buffer, self.begun)
            }
        };
        let drained = stream.drain(session, sink, buffer, last, &mut self.scratch);
        let (bytes, ended) = match drained {
            Err(Broken(rule)) => {
                let Owner { pid, tid, .. } = stream.owner;
                self.broke(format!("thread {tid} of process {pid}: {rule}"));
                self.broken.push(index);
                self.totals.push(stream.total);
                return 0;
            }
            Ok(drained) => drained,
        };
        if ended || last {
            self.totals.push(stream.total);
        }
        if ended {
            free(session, buffer);
        } else if !last {
            self.streams[index as usize] = Some(stream);
        }
        bytes
    }

    fn metadata(&mut self, session: &Session, sink: &mut dyn Sink, last: bool) {
        let (start, ready) = session.metadata();
        let header = size_of::<cowlab_casper::record::casper_meta>() as u64;
        let mut entries = Vec::new();
        let mut take = |position: u64, size: u32| -> bool {
            let at = start + position as usize;
            // kind and committed share a word.
            let committed = session.word(at + 4).to_ne_bytes();
            if committed[2..] == [0, 0] {
                return false;
            }
            let old = entries.len();
            entries.resize(old + size as usize, 0);
            session.memory().read(at, &mut entries[old..]);
            // As it was checked.
            entries[old..old + 4].copy_from_slice(&size.to_ne_bytes());
            true
        };
        self.uncommitted.retain(|&(position, size)| !take(position, size));
        let mut good = true;
        while good && self.meta_position + header <= ready {
            let size = session.word(start + self.meta_position as usize);
            if size == 0 {
                break;
            }
            let whole = header..=META_STEP_BYTES.min(ready - self.meta_position);
            good = whole.contains(&size.into())
                && size.is_multiple_of(8)
                && self.uncommitted.len() < UNCOMMITTED_MAX;
            if good && !take(self.meta_position, size) {
                self.uncommitted.push((self.meta_position, size));
            }
            self.meta_position += u64::from(size) * u64::from(good);
        }
        if last {
            self.uncommitted.clear();
        }
        // Nobody claims what has no memory, and a program that begins there would wait for it.
        let end = session.double_word(offset_of!(casper_session, meta_end));
        if !good || end > ready {
            self.broke(format!("metadata at offset {} is no entry", self.meta_position));
        }
        if !entries.is_empty() {
            sink.meta(&entries);
        }
    }
}

impl Stream {
    fn begin(session: &Session, sink: &mut dyn Sink, buffer: usize, number: u32) -> Stream {
        let process = session.word(field!(buffer, process));
        let pid = session.word(field!(buffer, pid));
        let owner = Owner::new(
            pid,
            session.word(field!(buffer, tid)),
            session.double_word(field!(buffer, pid_namespace)),
        );
        sink.thread(process, &owner);
        let mut total = casper_total::new_zeroed();
        (total.stream, total.process) = (number, process);
        Stream {
            total,
            owner,
            level: session.word(field!(buffer, level)),
            current: (process, pid),
            position: 0,
            base_ticks: 0,
            first_event: 0,
        }
    }

    /// Pass on what it has published, unless a flight recorder still records. Returns the bytes of
    /// its records, and whether it has ended.
    fn drain(
        &mut self,
        session: &Session,
        sink: &mut dyn Sink,
        buffer: usize,
        last: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<(u64, bool), Broken> {
        let overwrites = session.options.when_full == WhenFull::Overwrite;
        // Whether it has ended is asked before its position is: what it wrote last is seen.
        let state = session.word(field!(buffer, state));
        rule!(state != CASPER_BUFFER_FREE, "its buffer was given away before it was drained");
        let quiet = overwrites || session.double_word(field!(buffer, head)) == self.position;
        let ended = state != CASPER_BUFFER_CLAIMED
            || (quiet && self.owner.look(session.pid_namespace) == Seen::Gone);
        let mut bytes = 0;
        if !overwrites || ended || last {
            bytes = self.records(session, sink, buffer, scratch)?;
        }
        let dropped = session.double_word(field!(buffer, dropped));
        rule!(dropped >= self.total.dropped, "its count of dropped events went back to {dropped}");
        self.total.dropped = dropped;
        Ok((bytes, ended))
    }

    /// Pass on the records up to the position that it published last.
    fn records(
        &mut self,
        session: &Session,
        sink: &mut dyn Sink,
        buffer: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<u64, Broken> {
        let (ring_bytes, subbuf_bytes) = (session.options.buffer_bytes, session.subbuf_bytes);
        let overwrites = session.options.when_full == WhenFull::Overwrite;
        let head = session.double_word(field!(buffer, head));
        let most = if overwrites { u64::MAX >> 1 } else { self.position + ring_bytes };
        rule!(
            head.is_multiple_of(8) && (self.position..=most).contains(&head),
            "its position went from {} to {head}",
            self.position
        );
        if overwrites {
            // The oldest sub-buffer that is still whole.
            let last = head & !(subbuf_bytes - 1);
            self.position = self.position.max((last + subbuf_bytes).saturating_sub(ring_bytes));
        }
        let mut bytes = 0;
        while self.position < head {
            let start = self.position & !(subbuf_bytes - 1);
            let ring = buffer + CASPER_BUFFER_HEADER_BYTES as usize;
            let end = head.min(start + subbuf_bytes);
            let place = |position: u64| ring + (position & (ring_bytes - 1)) as usize;
            let mut header = [0; SUBBUF_HEADER_BYTES as usize];
            if self.position == start {
                session.memory().read(place(start), &mut header);
                self.position = end.min(start + SUBBUF_HEADER_BYTES);
            }
            scratch.resize((end - self.position) as usize, 0);
            session.memory().read(place(self.position), scratch);
            self.position = end;
            // Written over while it was copied?
            fence(Ordering::Acquire);
            let reserved = session.double_word(field!(buffer, reserve));
            if overwrites && start.saturating_add(ring_bytes) <= reserved {
                continue;
            }
            if let Ok(header) = casper_subbuf::read_from_bytes(&header)
                && header.base_ticks != 0
            {
                self.base_ticks = header.base_ticks;
                self.current = (header.process, header.pid);
                if overwrites {
                    self.skip_to(header.first_event, start)?;
                }
            }
            bytes += self.pass_on(sink, scratch)?;
        }
        // Each time, since its program waits for it.
        session.memory().u64(field!(buffer, tail)).store(self.position, Ordering::Release);
        Ok(bytes)
    }

    /// A flight recorder's sub-buffer at `start` says how many events were before it.
    fn skip_to(&mut self, first_event: u64, start: u64) -> Result<(), Broken> {
        let possible = self.first_event..=start / EVENT_ROOM_BYTES;
        rule!(possible.contains(&first_event), "{first_event} events in {start} bytes");
        self.total.overwritten += first_event - self.first_event;
        self.first_event = first_event;
        Ok(())
    }

    fn pass_on(&mut self, sink: &mut dyn Sink, records: &[u8]) -> Result<u64, Broken> {
        let found = summary(records);
        if found.used_bytes == 0 {
            rule!(found.end == End::Whole, "after its event {} comes no record", self.first_event);
            return Ok(0);
        }
        let of = DataChunk {
            stream: self.total.stream,
            process: self.current.0,
            pid: self.current.1,
            // A vfork child has one thread.
            tid: if self.current.0 == self.total.process { self.owner.tid } else { self.current.1 },
            level: self.level,
            events: found.events,
            first_event: self.first_event,
            base_ticks: self.base_ticks,
            dropped: self.total.dropped,
            ..DataChunk::default()
        };
        self.first_event += u64::from(found.events);
        if let Some((process, pid, _)) = found.switched {
            self.current = (process, pid);
        }
        sink.data(&of, &records[..found.used_bytes]);
        self.total.stored += u64::from(found.events);
        rule!(found.end == End::Whole, "after its event {} comes no record", self.first_event);
        Ok(found.used_bytes as u64)
    }
}

/// Give a buffer to who comes next.
fn free(session: &Session, buffer: usize) {
    let memory = session.memory();
    memory.u32(field!(buffer, stream)).store(0, Ordering::Relaxed);
    for offset in [
        field!(buffer, head),
        field!(buffer, reserve),
        field!(buffer, dropped),
        field!(buffer, tail),
    ] {
        memory.u64(offset).store(0, Ordering::Relaxed);
    }
    memory.u32(field!(buffer, state)).store(CASPER_BUFFER_FREE, Ordering::Release);
}

pub fn counters(session: &Session) -> Counters {
    Counters {
        no_buffer_events: session.double_word(offset_of!(casper_session, no_buffer_events)),
        lost_meta: session.double_word(offset_of!(casper_session, lost_meta)),
        processes: session.word(offset_of!(casper_session, next_process)),
        abandoned: session.word(offset_of!(casper_session, abandoned)) != 0,
    }
}

/// What a session counts as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize))]
pub struct Counters {
    /// Events dropped since no buffer was free.
    pub no_buffer_events: u64,
    /// Metadata entries that found no room.
    pub lost_meta: u64,
    pub processes: u32,
    /// A program found that the recorder had ended, and gave the memory back.
    #[cfg_attr(feature = "program", serde(skip))]
    pub abandoned: bool,
}

#[cfg(test)]
mod tests;
