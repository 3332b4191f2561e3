// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chunks, one after the other; what is no chunk is searched for the next one.

use zerocopy::FromBytes;

use super::damage::{Damage, Ledger};
use super::{ReadError, Trace};
use crate::record::*;
use crate::walk::{Records, records};
use crate::write::chunk_crc;

/// Read from the file at once.
const WINDOW: usize = 1 << 20;

/// A chunk whose checksum fits.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// Where it begins.
    pub offset: u64,
    /// Its header.
    pub head: casper_chunk,
    /// What follows the header, without padding.
    pub payload: &'a [u8],
    /// Events of its stream are missing between the stream's last chunk and this one: overwritten,
    /// or lost with the file. Where events were dropped, `CASPER_LOST` says so.
    pub after_loss: bool,
}

impl<'a> Chunk<'a> {
    /// The records of a data chunk.
    pub fn records(&self) -> Records<'a> {
        records(self.payload, self.head.base_ticks)
    }
}

/// The chunks of a trace. `next` lends each until it is called again.
#[derive(Debug)]
pub struct Chunks<'t> {
    trace: &'t Trace,
    /// Where the next chunk is looked for.
    offset: u64,
    window: Vec<u8>,
    window_at: u64,
    ledger: Ledger,
    /// Payloads of data chunks are not read.
    only_meta: bool,
    /// Bytes that may still be checked in vain while searching. See `next`.
    budget: u64,
}

/// What stands at an offset.
enum Found {
    Chunk(casper_chunk),
    /// A header that may be right, of a chunk that goes beyond the file's end.
    Cut,
    /// Nothing; the bytes that the search may pass over.
    Nothing(u64),
}

impl<'t> Chunks<'t> {
    pub(super) fn new(trace: &'t Trace, only_meta: bool) -> Self {
        Chunks {
            trace,
            offset: FILE_BYTES as u64,
            window: Vec::new(),
            window_at: 0,
            ledger: Ledger::default(),
            only_meta,
            budget: trace.bytes.saturating_mul(8).saturating_add(1 << 28),
        }
    }

    /// What is wrong with the trace, as far as it was read.
    pub fn damage(&self) -> Damage {
        self.ledger.close(&self.trace.header)
    }

    /// The next whole chunk; `None` at the end.
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Result<Option<Chunk<'_>>, ReadError> {
        let begin = self.offset;
        let mut cut_at = None;
        loop {
            let at = self.offset;
            if at >= self.trace.bytes {
                self.account_end(begin, cut_at);
                return Ok(None);
            }
            match self.look(at)? {
                Found::Chunk(head) => {
                    if at > begin {
                        self.ledger.skipped(begin, at - begin);
                    }
                    return self.take(at, head).map(Some);
                }
                Found::Cut => {
                    cut_at = cut_at.or(Some(at));
                    self.offset += 8;
                }
                Found::Nothing(step) => {
                    self.offset += step;
                    self.search()?;
                }
            }
        }
    }

    /// The chunk that `look` found, counted.
    fn take(&mut self, at: u64, head: casper_chunk) -> Result<Chunk<'_>, ReadError> {
        let size = head.size as usize;
        self.offset = at + (CHUNK_BYTES + padded(size)) as u64;
        let after_loss = self.ledger.chunk(&head);
        let payload: &[u8] = if self.only_meta && head.kind == CASPER_CHUNK_DATA {
            &[]
        } else {
            let from = (at - self.window_at) as usize + CHUNK_BYTES;
            &self.window[from..from + size]
        };
        if head.kind == CASPER_CHUNK_END {
            self.ledger.totals(payload);
        }
        Ok(Chunk { offset: at, head, payload, after_loss })
    }

    /// A record in the chunk that was read last was nonsense.
    pub fn bad_records(&mut self) {
        self.ledger.damage.bad_records += 1;
    }

    fn account_end(&mut self, begin: u64, cut_at: Option<u64>) {
        let end = self.trace.bytes;
        // What follows the last chunk is its cut successor only if it begins as one.
        let cut_at = cut_at.filter(|&at| at == begin).unwrap_or(end);
        if cut_at > begin {
            self.ledger.skipped(begin, cut_at - begin);
        }
        self.ledger.damage.cut_bytes += end.saturating_sub(cut_at);
        self.offset = end;
    }

    /// Judge what stands at `at`; a chunk is in the window afterwards.
    fn look(&mut self, at: u64) -> Result<Found, ReadError> {
        let left = self.trace.bytes - at;
        let Some(head) = self.bytes_at(at, CHUNK_BYTES)? else {
            let short = self.bytes_at(at, left.min(4) as usize)?.unwrap_or_default();
            let cut = CASPER_CHUNK_MAGIC.to_ne_bytes().starts_with(short);
            return Ok(if cut { Found::Cut } else { Found::Nothing(8) });
        };
        let Ok((head, _)) = casper_chunk::read_from_prefix(head) else {
            return Ok(Found::Nothing(8));
        };
        let known = CASPER_CHUNK_DATA..=CASPER_CHUNK_END;
        if head.magic != CASPER_CHUNK_MAGIC
            || head.size > CASPER_CHUNK_MAX
            || !known.contains(&head.kind)
        {
            return Ok(Found::Nothing(8));
        }
        let size = head.size as usize;
        let whole = (CHUNK_BYTES + size) as u64;
        if whole > left {
            return Ok(Found::Cut);
        }
        if self.only_meta && head.kind == CASPER_CHUNK_DATA && self.is_followed(at, size)? {
            return Ok(Found::Chunk(head));
        }
        let Some(bytes) = self.bytes_at(at, whole as usize)? else {
            return Ok(Found::Cut); // truncated since it was opened
        };
        if chunk_crc(&head, &bytes[CHUNK_BYTES..]) == head.crc {
            return Ok(Found::Chunk(head));
        }
        // A file made of headers that each claim 16 MiB would take hours to search. Once that many
        // bytes were checked in vain, a bad chunk is passed over whole.
        let Some(budget) = self.budget.checked_sub(whole) else {
            return Ok(Found::Nothing(padded(whole as usize) as u64));
        };
        self.budget = budget;
        Ok(Found::Nothing(8))
    }

    /// Whether a chunk, or the end of the file, follows one of `size` bytes at `at`.
    fn is_followed(&mut self, at: u64, size: usize) -> Result<bool, ReadError> {
        let next = at + (CHUNK_BYTES + padded(size)) as u64;
        if next >= self.trace.bytes {
            return Ok(true);
        }
        let magic = self.bytes_at(next, 4)?;
        Ok(magic.is_some_and(|magic| magic == CASPER_CHUNK_MAGIC.to_ne_bytes()))
    }

    /// Go on to the next place where a chunk may begin. All begin at multiples of 8.
    fn search(&mut self) -> Result<(), ReadError> {
        let magic = CASPER_CHUNK_MAGIC.to_ne_bytes();
        while self.offset < self.trace.bytes {
            let left = usize::try_from(self.trace.bytes - self.offset).unwrap_or(usize::MAX);
            let Some(bytes) = self.bytes_at(self.offset, left.min(WINDOW / 2))? else {
                self.offset = self.trace.bytes; // truncated since it was opened
                return Ok(());
            };
            let found = bytes.chunks(8).position(|word| word.starts_with(&magic));
            match found {
                Some(words) => {
                    self.offset += 8 * words as u64;
                    return Ok(());
                }
                None => self.offset += bytes.len().next_multiple_of(8) as u64,
            }
        }
        Ok(())
    }

    /// `length` bytes of the file; `None` where it ends before.
    fn bytes_at(&mut self, at: u64, length: usize) -> Result<Option<&[u8]>, ReadError> {
        let have = self.window_at + self.window.len() as u64;
        if at < self.window_at || at + length as u64 > have {
            self.fill(at, length)?;
        }
        let from = (at - self.window_at) as usize;
        Ok(self.window.get(from..from + length))
    }

    /// Have the window begin at `at` and hold at least `length` bytes, or all there are.
    fn fill(&mut self, at: u64, length: usize) -> Result<(), ReadError> {
        let left = usize::try_from(self.trace.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        // While only metadata is wanted, most of what a large window holds would not be looked at.
        let ahead = if self.only_meta { 4096 } else { WINDOW };
        let want = length.max(ahead).min(left);
        let end = self.window_at + self.window.len() as u64;
        let mut have = 0;
        if at >= self.window_at && at < end {
            let from = (at - self.window_at) as usize;
            have = self.window.len() - from;
            self.window.copy_within(from.., 0);
        }
        have = have.min(want);
        self.window.resize(want, 0);
        self.window_at = at;
        let got = self.trace.source.read_at(&mut self.window[have..], at + have as u64);
        let got = got.map_err(|source| {
            self.window.clear();
            ReadError::Io { path: self.trace.path.clone(), offset: at, source }
        })?;
        self.window.truncate(have + got);
        Ok(())
    }
}
