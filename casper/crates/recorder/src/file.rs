// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trace file as the drain writes it: a full disk costs events, which are counted, and nothing
//! else.

use std::collections::HashMap;
use std::path::Path;

use cowlab_casper::record::{
    CASPER_META_MODULE, CASPER_META_THREAD, casper_file, casper_meta, casper_meta_module,
    casper_meta_thread, casper_total, padded,
};
use cowlab_casper::write::{DataChunk, TraceWriter, WriteError, new_header};
use zerocopy::{FromZeros, IntoBytes};

use crate::drain::{Counters, Drain, Sink};
use crate::owner::Owner;
use crate::session::Session;

/// A trace that is being recorded.
pub struct TraceFile {
    writer: TraceWriter,
    /// Events that the disk had no room for, by stream.
    disk_lost: HashMap<u32, u64>,
    lost_meta: u64,
    /// What the disk answered first.
    trouble: Option<WriteError>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize))]
pub struct Account {
    pub stored_events: u64,
    pub dropped_events: u64,
    /// Buffers were full and their oldest made room.
    pub overwritten_events: u64,
    pub disk_lost_events: u64,
    #[cfg_attr(feature = "program", serde(flatten))]
    pub counters: Counters,
    /// Streams: what each thread recorded from its first event to its end.
    pub streams: u32,
    /// Which rule of the session's memory a program broke, if one did: it was closed then.
    #[cfg_attr(feature = "program", serde(skip_serializing_if = "Option::is_none"))]
    pub breach: Option<String>,
    pub bytes: u64,
}

impl TraceFile {
    /// Create the file; its header describes the session.
    pub fn create(path: &Path, session: &Session, command: &str) -> Result<TraceFile, WriteError> {
        let mut header = new_header();
        header.mode = session.options.when_full.code();
        header.clock = session.clock.code();
        header.buffer_bytes = session.options.buffer_bytes as u32;
        header.subbuf_bytes = session.subbuf_bytes as u32;
        header.id = session.id;
        header.first_ticks = session.first.ticks;
        header.first_monotonic_ns = session.first.monotonic_ns;
        header.first_realtime_ns = realtime_ns(session.first.monotonic_ns);
        put_text(&mut header.command, command);
        set_now(&mut header, session);
        let writer = TraceWriter::create(path, &header)?;
        Ok(TraceFile { writer, disk_lost: HashMap::new(), lost_meta: 0, trouble: None })
    }

    /// The header, to be changed; [`TraceFile::refresh`] writes it.
    pub fn header_mut(&mut self) -> &mut casper_file {
        self.writer.header_mut()
    }

    /// Bring the second moment of the clocks up to date.
    pub fn refresh(&mut self, session: &Session) {
        set_now(self.writer.header_mut(), session);
        let result = self.writer.write_header();
        self.note(result);
    }

    /// Keep the first trouble; true if all went well.
    fn note(&mut self, result: Result<(), WriteError>) -> bool {
        match result {
            Ok(()) => true,
            Err(error) => {
                self.trouble.get_or_insert(error);
                false
            }
        }
    }

    /// A module of a process that ran before the recording began.
    pub fn module(&mut self, process: u32, module: &casper_meta_module, path: &str) {
        let mut content = module.as_bytes().to_vec();
        content.extend_from_slice(path.as_bytes());
        content.push(0);
        self.entry(CASPER_META_MODULE as u16, process, &content);
    }

    fn entry(&mut self, kind: u16, process: u32, content: &[u8]) {
        let size = padded(size_of::<casper_meta>() + content.len());
        let length = content.len() as u32;
        let head = casper_meta { size: size as u32, kind, committed: 1, process, length };
        let mut entry = head.as_bytes().to_vec();
        entry.extend_from_slice(content);
        entry.resize(size, 0);
        self.meta(&entry);
    }

    /// End the file: totals and the final header.
    pub fn finish(mut self, session: &Session, drain: &Drain) -> (Account, Option<WriteError>) {
        let mut totals: Vec<casper_total> = drain.totals().to_vec();
        for total in &mut totals {
            total.disk_lost = self.disk_lost.get(&total.stream).copied().unwrap_or(0);
            total.stored -= total.disk_lost;
        }
        // What programs counted may be any number.
        let sum = |of: fn(&casper_total) -> u64| totals.iter().map(of).fold(0, u64::saturating_add);
        let mut counters = crate::drain::counters(session);
        counters.lost_meta = counters.lost_meta.saturating_add(self.lost_meta);
        let mut account = Account {
            stored_events: sum(|total| total.stored),
            dropped_events: sum(|total| total.dropped),
            overwritten_events: sum(|total| total.overwritten),
            disk_lost_events: sum(|total| total.disk_lost),
            counters,
            streams: drain.streams(),
            breach: drain.breach().map(str::to_owned),
            bytes: 0,
        };
        set_now(self.writer.header_mut(), session);
        let header = self.writer.header_mut();
        header.stored_events = account.stored_events;
        header.dropped_events = account.dropped_events;
        header.overwritten_events = account.overwritten_events;
        header.disk_lost_events = account.disk_lost_events;
        header.no_buffer_events = account.counters.no_buffer_events;
        header.lost_meta = account.counters.lost_meta;
        header.processes = account.counters.processes;
        header.streams = account.streams;
        account.bytes = self.writer.bytes();
        let finished = self.writer.finish(&totals);
        (account, self.trouble.or(finished.err()))
    }
}

impl Sink for TraceFile {
    fn data(&mut self, of: &DataChunk, payload: &[u8]) {
        let result = self.writer.data(of, payload);
        if !self.note(result) {
            *self.disk_lost.entry(of.stream).or_default() += u64::from(of.events);
        }
    }

    fn meta(&mut self, entries: &[u8]) {
        let result = self.writer.meta(entries);
        if !self.note(result) {
            self.lost_meta += cowlab_casper::meta::entries(entries).count() as u64;
        }
    }

    fn thread(&mut self, process: u32, owner: &Owner) {
        let Some(name) = owner.name() else { return };
        let mut thread = casper_meta_thread::new_zeroed();
        thread.tid = owner.tid;
        put_text(&mut thread.name, &name);
        self.entry(CASPER_META_THREAD as u16, process, thread.as_bytes());
    }
}

fn set_now(header: &mut casper_file, session: &Session) {
    // A rate from less than 20 ms would be a guess; what the session was told comes from that.
    session.clock.hz(session.first);
    let now = session.clock.now();
    header.last_ticks = now.ticks;
    header.last_monotonic_ns = now.monotonic_ns;
}

/// What the wall clock showed at a moment of the monotonic one.
fn realtime_ns(monotonic_ns: u64) -> i64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as i64);
    now - (crate::clock::monotonic_ns() - monotonic_ns) as i64
}

/// Copy text into a field that ends with a NUL.
fn put_text(field: &mut [u8], text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(field.len() - 1)];
    field[..bytes.len()].copy_from_slice(bytes);
}
