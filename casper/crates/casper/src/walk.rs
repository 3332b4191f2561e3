// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records in a sub-buffer or a chunk, one after the other. Safe on any bytes.

use zerocopy::FromBytes;

use crate::record::*;

/// One record: an event or a note, with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    /// When it was recorded.
    pub ticks: u64,
    /// The event, its type included: at least 2 bytes.
    pub bytes: &'a [u8],
}

impl<'a> Raw<'a> {
    /// The first member of every event.
    #[inline]
    pub fn event_type(&self) -> u16 {
        u16::from_ne_bytes([self.bytes[0], self.bytes[1]])
    }

    /// The event as one of CASPER's own structures, where it is long enough.
    #[inline]
    pub fn read<T: FromBytes>(&self) -> Option<T> {
        T::read_from_prefix(self.bytes).ok().map(|(value, _)| value)
    }
}

/// Why a walk over records ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the end of the bytes, or where a word says that the rest is unused.
    Whole,
    /// At a word that no program wrote: what follows cannot be read.
    Damaged {
        /// Offset of that word.
        offset: usize,
    },
}

/// The records of `bytes`, which begin with the first record's word.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    all: usize,
    base_ticks: u64,
    end: Option<End>,
}

/// Walk over records whose times count from `base_ticks`.
pub fn records(bytes: &[u8], base_ticks: u64) -> Records<'_> {
    Records { rest: bytes, all: bytes.len(), base_ticks, end: None }
}

impl Records<'_> {
    /// Why the walk ended; `None` while it has not.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Offset of the word of the record that comes next.
    pub fn offset(&self) -> usize {
        self.all - self.rest.len()
    }

    #[cold]
    fn stop(&mut self, whole: bool) {
        let offset = self.offset();
        self.end = Some(if whole { End::Whole } else { End::Damaged { offset } });
        self.rest = &[];
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Raw<'a>;

    #[inline]
    fn next(&mut self) -> Option<Raw<'a>> {
        if self.end.is_some() {
            return None;
        }
        let Some((word, after)) = self.rest.split_first_chunk::<WORD_BYTES>() else {
            self.stop(self.rest.is_empty());
            return None;
        };
        let word = u64::from_ne_bytes(*word);
        let size = (word & 0xffff) as usize;
        if size < 2 || size > CASPER_EVENT_MAX as usize || size > after.len() {
            self.stop(size == 0);
            return None;
        }
        self.rest = after.get(padded(size)..).unwrap_or_default();
        Some(Raw { ticks: self.base_ticks.wrapping_add(word >> 16), bytes: &after[..size] })
    }
}

/// What stands in a payload, for a chunk's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadSummary {
    /// Events; notes are not counted.
    pub events: u32,
    /// Bytes from the payload's begin to the end of its last whole record.
    pub used_bytes: usize,
    /// The last `CASPER_SWITCH`: whose the next payload of the stream is.
    pub switched: Option<(u32, u32, u32)>,
    /// Dropped events of the last `CASPER_LOST`.
    pub dropped: Option<u64>,
    /// Why the walk ended.
    pub end: End,
}

/// Count the events of a payload and follow its notes.
pub fn summary(bytes: &[u8]) -> PayloadSummary {
    let mut walk = records(bytes, 0);
    let mut events = 0;
    let mut used_bytes = 0;
    let mut switched = None;
    let mut dropped = None;
    while let Some(raw) = walk.next() {
        used_bytes = walk.offset();
        match u32::from(raw.event_type()) {
            CASPER_SWITCH => {
                if let Some(to) = raw.read::<casper_switch>() {
                    switched = Some((to.process, to.pid, to.tid));
                }
            }
            CASPER_LOST => {
                if let Some(lost) = raw.read::<casper_lost>() {
                    dropped = Some(lost.dropped);
                }
            }
            _ if is_note(raw.event_type()) => {}
            _ => events += 1,
        }
    }
    let end = walk.end().unwrap_or(End::Whole);
    PayloadSummary { events, used_bytes, switched, dropped, end }
}

/// Append a record to a payload, as a program writes it into its buffer.
pub fn append(payload: &mut Vec<u8>, delta_ticks: u64, event: &[u8]) {
    debug_assert!((2..=CASPER_EVENT_MAX as usize).contains(&event.len()));
    payload.extend_from_slice(&(delta_ticks << 16 | event.len() as u64).to_ne_bytes());
    payload.extend_from_slice(event);
    payload.resize(padded(payload.len()), 0);
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    fn payload() -> Vec<u8> {
        let mut bytes = Vec::new();
        append(&mut bytes, 5, &7u16.to_ne_bytes());
        append(&mut bytes, 9, &[8, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let switch = casper_switch {
            event_type: CASPER_SWITCH as u16,
            unused: 0,
            process: 3,
            pid: 30,
            tid: 31,
        };
        append(&mut bytes, 9, switch.as_bytes());
        let lost =
            casper_lost { event_type: CASPER_LOST as u16, unused: 0, unused2: 0, dropped: 44 };
        append(&mut bytes, 10, lost.as_bytes());
        bytes
    }

    #[test]
    fn records_come_back_with_their_times() {
        let bytes = payload();
        let mut walk = records(&bytes, 100);
        assert_eq!(walk.next(), Some(Raw { ticks: 105, bytes: &[7, 0] }));
        assert_eq!(walk.next().map(|raw| (raw.ticks, raw.bytes.len())), Some((109, 10)));
        assert_eq!(walk.by_ref().count(), 2);
        assert_eq!(walk.end(), Some(End::Whole));
    }

    #[test]
    fn the_summary_counts_events_and_follows_notes() {
        let bytes = payload();
        let found = summary(&bytes);
        assert_eq!(found.events, 2);
        assert_eq!(found.used_bytes, bytes.len());
        assert_eq!(found.switched, Some((3, 30, 31)));
        assert_eq!(found.dropped, Some(44));
        assert_eq!(found.end, End::Whole);
    }

    #[test]
    fn a_zero_word_ends_it_and_nonsense_is_damage() {
        let mut bytes = payload();
        let used = bytes.len();
        bytes.extend([0; 24]);
        assert_eq!((summary(&bytes).used_bytes, summary(&bytes).end), (used, End::Whole));
        for word in [1u64, 5000, 4096, 100] {
            bytes[used..used + 8].copy_from_slice(&word.to_ne_bytes());
            let found = summary(&bytes);
            assert_eq!((found.used_bytes, found.end), (used, End::Damaged { offset: used }));
        }
    }

    #[test]
    fn every_cut_is_survived() {
        let bytes = payload();
        for cut in 0..bytes.len() {
            let found = summary(&bytes[..cut]);
            assert!(found.used_bytes <= cut && found.events <= 2, "{cut}: {found:?}");
        }
    }
}
