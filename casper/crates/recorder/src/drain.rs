// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Empties the programs' buffers: what each stream recorded goes on in order, and what was dropped
//! or overwritten is counted.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use anyhow::Result;
use cowlab_casper::record::{
    CASPER_BUFFER_CLAIMED, CASPER_BUFFER_FREE, CASPER_BUFFER_HEADER_BYTES, casper_buffer,
    casper_session, casper_subbuf, casper_total,
};
use cowlab_casper::walk::summary;
use cowlab_casper::write::DataChunk;
use zerocopy::{FromBytes, FromZeros};

use crate::owner::{Owner, Seen};
use crate::session::{Session, WhenFull};

const SUBBUF_HEADER_BYTES: u64 = size_of::<casper_subbuf>() as u64;

/// Where drained records go.
pub trait Sink {
    /// Records of one sub-buffer, or of a part of it.
    fn data(&mut self, of: &DataChunk, payload: &[u8]) -> Result<()>;
    /// Whole metadata entries.
    fn meta(&mut self, entries: &[u8]) -> Result<()>;
    /// A thread records for the first time.
    fn thread(&mut self, process: u32, owner: &Owner) -> Result<()>;
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

/// Empties a session's buffers.
#[derive(Debug, Default)]
pub struct Drain {
    streams: Vec<Option<Stream>>,
    totals: Vec<casper_total>,
    scratch: Vec<u8>,
    meta_position: u64,
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

    /// Pass on what there is. `last`: the recording is over, so that a flight recorder's buffers
    /// are taken as well. Returns the bytes of records that were passed on.
    pub fn round(&mut self, session: &Session, sink: &mut dyn Sink, last: bool) -> Result<u64> {
        let mut bytes = 0;
        self.metadata(session, sink, last)?;
        let ready = session.buffers_ready();
        self.streams.resize_with(ready as usize, || None);
        let mut free = 0;
        for index in 0..ready {
            let buffer = session.buffer_offset(index);
            if session.word(field!(buffer, state)) == CASPER_BUFFER_FREE {
                free += 1;
                continue;
            }
            bytes += self.buffer(session, sink, index, last)?;
        }
        // Ahead of who starts threads or forks: half as many again as are in use.
        if !last && free < 4 + ready / 4 {
            session.provide_buffers(ready + 4 + ready / 2)?;
        }
        session.provide_metadata()?;
        Ok(bytes)
    }

    fn buffer(
        &mut self,
        session: &Session,
        sink: &mut dyn Sink,
        index: u32,
        last: bool,
    ) -> Result<u64> {
        let buffer = session.buffer_offset(index);
        let number = session.word(field!(buffer, stream));
        if number == 0 {
            // Claimed a moment ago, or by a program that was killed within that moment.
            return Ok(0);
        }
        let mut stream = match self.streams[index as usize].take() {
            Some(stream) => stream,
            None => Stream::begin(session, sink, buffer, number)?,
        };
        // Whether it has ended is asked before its position is: what it wrote last is seen.
        let closed = session.word(field!(buffer, state)) != CASPER_BUFFER_CLAIMED;
        let head = session.double_word(field!(buffer, head));
        let quiet = head == stream.position || session.options.when_full == WhenFull::Overwrite;
        let ended = closed || (quiet && stream.owner.look(session.pid_namespace) == Seen::Gone);
        let mut bytes = 0;
        if session.options.when_full != WhenFull::Overwrite || ended || last {
            bytes = self.stream(session, sink, buffer, &mut stream)?;
        }
        stream.total.dropped = session.double_word(field!(buffer, dropped));
        if ended || last {
            self.totals.push(stream.total);
        }
        if ended {
            free(session, buffer);
        } else if !last {
            self.streams[index as usize] = Some(stream);
        }
        Ok(bytes)
    }

    /// Pass on what a stream has published.
    fn stream(
        &mut self,
        session: &Session,
        sink: &mut dyn Sink,
        buffer: usize,
        stream: &mut Stream,
    ) -> Result<u64> {
        let ring_bytes = session.options.buffer_bytes;
        let overwrites = session.options.when_full == WhenFull::Overwrite;
        let head = session.double_word(field!(buffer, head));
        let from = stream.position;
        if overwrites {
            // The oldest sub-buffer that is still whole.
            let last = head & !(session.subbuf_bytes - 1);
            let oldest = (last + session.subbuf_bytes).saturating_sub(ring_bytes);
            stream.position = stream.position.max(oldest);
        }
        let mut bytes = 0;
        while stream.position < head {
            let start = stream.position & !(session.subbuf_bytes - 1);
            let ring = buffer + CASPER_BUFFER_HEADER_BYTES as usize;
            let end = head.min(start + session.subbuf_bytes);
            let place = |position: u64| ring + (position & (ring_bytes - 1)) as usize;
            let mut header = [0; SUBBUF_HEADER_BYTES as usize];
            if stream.position == start {
                session.memory().read(place(start), &mut header);
                stream.position = end.min(start + SUBBUF_HEADER_BYTES);
            }
            self.scratch.resize((end - stream.position) as usize, 0);
            session.memory().read(place(stream.position), &mut self.scratch);
            stream.position = end;
            // Written over while it was copied?
            let reserved = session.double_word(field!(buffer, reserve));
            if overwrites && start + ring_bytes <= reserved {
                continue;
            }
            if let Ok(header) = casper_subbuf::read_from_bytes(&header)
                && header.base_ticks != 0
            {
                stream.base_ticks = header.base_ticks;
                stream.current = (header.process, header.pid);
                if overwrites {
                    stream.total.overwritten +=
                        header.first_event.saturating_sub(stream.first_event);
                }
                stream.first_event = header.first_event;
            }
            bytes += stream.pass_on(sink, &self.scratch)?;
        }
        if stream.position != from {
            session.memory().u64(field!(buffer, tail)).store(stream.position, Ordering::Release);
        }
        Ok(bytes)
    }

    /// Pass on committed metadata.
    fn metadata(&mut self, session: &Session, sink: &mut dyn Sink, last: bool) -> Result<()> {
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
            true
        };
        self.uncommitted.retain(|&(position, size)| !take(position, size));
        while self.meta_position + header <= ready {
            let size = session.word(start + self.meta_position as usize);
            let fits = u64::from(size) <= ready - self.meta_position;
            if size == 0 || u64::from(size) < header || !size.is_multiple_of(8) || !fits {
                break;
            }
            if !take(self.meta_position, size) {
                self.uncommitted.push((self.meta_position, size));
            }
            self.meta_position += u64::from(size);
        }
        if last {
            self.uncommitted.clear();
        }
        if entries.is_empty() { Ok(()) } else { sink.meta(&entries) }
    }
}

impl Stream {
    fn begin(session: &Session, sink: &mut dyn Sink, buffer: usize, number: u32) -> Result<Stream> {
        let process = session.word(field!(buffer, process));
        let pid = session.word(field!(buffer, pid));
        let owner = Owner::new(
            pid,
            session.word(field!(buffer, tid)),
            session.double_word(field!(buffer, pid_namespace)),
        );
        sink.thread(process, &owner)?;
        let mut total = casper_total::new_zeroed();
        (total.stream, total.process) = (number, process);
        Ok(Stream {
            total,
            owner,
            level: session.word(field!(buffer, level)),
            current: (process, pid),
            position: 0,
            base_ticks: 0,
            first_event: 0,
        })
    }

    fn pass_on(&mut self, sink: &mut dyn Sink, records: &[u8]) -> Result<u64> {
        let found = summary(records);
        if found.used_bytes == 0 {
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
        };
        self.first_event += u64::from(found.events);
        if let Some((process, pid, _)) = found.switched {
            self.current = (process, pid);
        }
        sink.data(&of, &records[..found.used_bytes])?;
        self.total.stored += u64::from(found.events);
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

/// Counters of the whole session.
pub fn counters(session: &Session) -> Counters {
    Counters {
        no_buffer_events: session.double_word(offset_of!(casper_session, no_buffer_events)),
        lost_meta: session.double_word(offset_of!(casper_session, lost_meta)),
        processes: session.word(offset_of!(casper_session, next_process)),
        streams: session.word(offset_of!(casper_session, next_stream)),
        abandoned: session.word(offset_of!(casper_session, abandoned)) != 0,
    }
}

/// What a session counts as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events dropped since no buffer was free.
    pub no_buffer_events: u64,
    /// Metadata entries that found no room.
    pub lost_meta: u64,
    /// Processes that entered.
    pub processes: u32,
    /// Streams that began.
    pub streams: u32,
    /// A program left since it saw no heartbeat.
    pub abandoned: bool,
}
