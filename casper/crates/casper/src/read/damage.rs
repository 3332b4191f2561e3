// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a trace lacks, and why.

use std::collections::HashMap;

use zerocopy::FromBytes;

use crate::record::*;

/// Events that the recording itself could not keep, as the recorder counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Buffers were full.
    pub dropped: u64,
    /// Buffers were full, and the oldest gave way.
    pub overwritten: u64,
    /// No buffer was free.
    pub no_buffer: u64,
    /// The disk was full.
    pub disk: u64,
    /// Entries of metadata, not events.
    pub meta: u64,
}

/// What is wrong with the file, and what it lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// Bytes that belong to no whole chunk, apart from a cut end.
    pub skipped_bytes: u64,
    /// Places where they stand.
    pub skipped_places: u64,
    /// Offset of the first such place.
    pub first_skipped: Option<u64>,
    /// Bytes of the chunk that the end of the file cut.
    pub cut_bytes: u64,
    /// Chunks that are not there, by the sequence of the others.
    pub missing_chunks: u64,
    /// Chunks whose records end in something that no program wrote.
    pub bad_records: u64,
    /// Events that were stored and are not in the file any more.
    pub missing_events: u64,
    /// Events that were read.
    pub read_events: u64,
    /// Whether the recorder ended in order. If not, it was killed, or still runs.
    pub finished: bool,
    /// What the recording itself lost.
    pub lost: Lost,
}

impl Damage {
    /// Whether the file holds everything that its recorder stored.
    pub fn is_whole(&self) -> bool {
        self.finished
            && self.skipped_bytes == 0
            && self.cut_bytes == 0
            && self.missing_chunks == 0
            && self.bad_records == 0
            && self.missing_events == 0
    }

    /// Whether nothing at all was lost, neither by the recording nor since.
    pub fn is_complete(&self) -> bool {
        self.is_whole() && self.lost == Lost::default()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    next_event: u64,
    read: u64,
    gaps: u64,
    dropped: u64,
    total: Option<casper_total>,
}

/// Collects the account while chunks go by.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub damage: Damage,
    streams: HashMap<u32, Stream>,
    next_sequence: u64,
    totals: bool,
}

impl Ledger {
    /// A whole chunk was found. True: events of its stream are missing before it. Dropped ones are
    /// not told here: `CASPER_LOST` says where those are missing.
    pub fn chunk(&mut self, head: &casper_chunk) -> bool {
        self.damage.missing_chunks = self
            .damage
            .missing_chunks
            .saturating_add(head.sequence.saturating_sub(self.next_sequence));
        self.next_sequence = head.sequence.saturating_add(1).max(self.next_sequence);
        if head.kind != CASPER_CHUNK_DATA {
            return false;
        }
        let stream = self.streams.entry(head.stream).or_default();
        let gap = head.first_event.saturating_sub(stream.next_event);
        stream.gaps = stream.gaps.saturating_add(gap);
        stream.next_event = head.first_event.saturating_add(u64::from(head.events));
        stream.dropped = head.dropped.max(stream.dropped);
        stream.read += u64::from(head.events);
        self.damage.read_events += u64::from(head.events);
        gap > 0
    }

    /// The totals of the last chunk.
    pub fn totals(&mut self, mut payload: &[u8]) {
        self.totals = true;
        while let Ok((total, rest)) = casper_total::read_from_prefix(payload) {
            self.streams.entry(total.stream).or_default().total = Some(total);
            payload = rest;
        }
    }

    pub fn skipped(&mut self, offset: u64, bytes: u64) {
        self.damage.skipped_bytes += bytes;
        self.damage.skipped_places += 1;
        self.damage.first_skipped.get_or_insert(offset);
    }

    /// The account as it is now; final once all chunks were seen.
    pub fn close(&self, header: &casper_file) -> Damage {
        let mut damage = self.damage.clone();
        damage.finished = header.finished == 1;
        let dropped = self.streams.values().fold(0u64, |sum, s| sum.saturating_add(s.dropped));
        damage.lost = Lost {
            // The recorder's count is final only at its end; the chunks know a part before.
            dropped: header.dropped_events.max(dropped),
            overwritten: header.overwritten_events,
            no_buffer: header.no_buffer_events,
            disk: header.disk_lost_events,
            meta: header.lost_meta,
        };
        let mut missing = 0u64;
        let mut gaps = 0u64;
        for stream in self.streams.values() {
            match stream.total {
                Some(total) => {
                    missing = missing.saturating_add(total.stored.saturating_sub(stream.read));
                }
                None => gaps = gaps.saturating_add(stream.gaps),
            }
        }
        if !self.totals {
            let known = damage.lost.overwritten.saturating_add(damage.lost.disk);
            missing = gaps.saturating_sub(known);
            if damage.finished {
                missing = missing.max(header.stored_events.saturating_sub(damage.read_events));
            }
        }
        damage.missing_events = missing;
        damage
    }
}
