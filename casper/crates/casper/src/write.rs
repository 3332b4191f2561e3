// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing a trace: a header that is brought up to date in place, and chunks that each stand for
//! themselves.
//!
//! A chunk that does not go to disk whole is cut off again, so that the file is readable at every
//! moment and its writer can go on once there is room.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use zerocopy::{FromZeros, IntoBytes};

use crate::record::*;

/// A trace could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the trace {} at offset {offset}: {error}{}", path.display(), hint(error))]
pub struct WriteError {
    /// The trace.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// Why: part of the message, and no `source`, which would be said twice.
    pub error: io::Error,
}

impl WriteError {
    /// Whether the disk, or the user's share of it, is full: writing may succeed later.
    pub fn is_full(&self) -> bool {
        is_full(&self.error)
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | WriteZero)
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => " (does its folder exist?)",
        io::ErrorKind::AlreadyExists => " (a trace is a new file)",
        _ if is_full(error) => " (make room there, or record to another disk)",
        _ => "",
    }
}

/// Whose records a data chunk holds, and what came before them; the writer fills in the rest.
pub use crate::record::casper_chunk as DataChunk;

/// A trace that is being written.
#[derive(Debug)]
pub struct TraceWriter {
    file: File,
    path: PathBuf,
    header: casper_file,
    /// End of the last whole chunk.
    end: u64,
    sequence: u64,
    /// A part of a chunk may stand after `end`, since cutting it off failed.
    ragged: bool,
}

/// A header with its fixed fields filled in, and what is not known absent.
pub fn new_header() -> casper_file {
    let mut header = casper_file::new_zeroed();
    header.magic.copy_from_slice(&CASPER_FILE_MAGIC[..8]);
    header.byte_order = CASPER_BYTE_ORDER;
    header.version = CASPER_VERSION;
    header.header_bytes = FILE_BYTES as u32;
    header.exit_status = -1;
    header.event_ps = CASPER_ABSENT;
    header.call_inner_ps = CASPER_ABSENT;
    header.call_outer_ps = CASPER_ABSENT;
    header.address_inner_ps = CASPER_ABSENT;
    header.address_outer_ps = CASPER_ABSENT;
    header
}

/// The checksum of a file header.
pub fn header_crc(header: &casper_file) -> u32 {
    let mut copy = *header;
    copy.crc = 0;
    crc32c::crc32c(copy.as_bytes())
}

/// The checksum of a chunk: of what follows its crc field, and of its payload.
pub fn chunk_crc(chunk: &casper_chunk, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&chunk.as_bytes()[8..]), payload)
}

impl TraceWriter {
    /// Create a trace that only its owner may read. What is there already stays as it is, be it a
    /// file, a device or a link to one.
    pub fn create(path: &Path, header: &casper_file) -> Result<Self, WriteError> {
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file =
            created.map_err(|error| WriteError { path: path.to_owned(), offset: 0, error })?;
        let end = FILE_BYTES as u64;
        let path = path.to_owned();
        let mut writer =
            TraceWriter { file, path, header: *header, end, sequence: 0, ragged: false };
        if let Err(error) = writer.write_header() {
            // Without a header it is no trace.
            let _ = std::fs::remove_file(&writer.path);
            return Err(error);
        }
        Ok(writer)
    }

    /// The header as it was last written or changed.
    pub fn header(&self) -> &casper_file {
        &self.header
    }

    /// To be changed, and then written by [`TraceWriter::write_header`].
    pub fn header_mut(&mut self) -> &mut casper_file {
        &mut self.header
    }

    /// Bytes of the trace so far.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Write the header over the old one, with a new checksum. Needs no room on the disk.
    pub fn write_header(&mut self) -> Result<(), WriteError> {
        self.header.crc = header_crc(&self.header);
        self.file.write_all_at(self.header.as_bytes(), 0).map_err(|error| WriteError {
            path: self.path.clone(),
            offset: 0,
            error,
        })
    }

    /// Write the records of one sub-buffer, or of a part of it.
    pub fn data(&mut self, of: &DataChunk, payload: &[u8]) -> Result<(), WriteError> {
        self.chunk(casper_chunk { kind: CASPER_CHUNK_DATA, ..*of }, payload)
    }

    /// Write metadata: whole entries, in as many chunks as they need.
    pub fn meta(&mut self, mut entries: &[u8]) -> Result<(), WriteError> {
        while !entries.is_empty() {
            let cut = crate::meta::entries_within(entries, CASPER_CHUNK_MAX as usize);
            // What is no list of entries is kept in pieces: the reader says what is wrong with it.
            let cut = if cut == 0 { entries.len().min(CASPER_CHUNK_MAX as usize) } else { cut };
            let chunk = casper_chunk { kind: CASPER_CHUNK_META, ..casper_chunk::default() };
            self.chunk(chunk, &entries[..cut])?;
            entries = &entries[cut..];
        }
        Ok(())
    }

    /// Write the totals of the streams, then the header as final, and all of it to the disk. The
    /// header is written even where the totals find no room.
    pub fn finish(mut self, totals: &[casper_total]) -> Result<(), WriteError> {
        let each = CASPER_CHUNK_MAX as usize / size_of::<casper_total>();
        let mut result = Ok(());
        // At least one, so that a trace without streams ends in order as well.
        for part in 0..totals.len().div_ceil(each).max(1) {
            let some = &totals[part * each..totals.len().min((part + 1) * each)];
            let chunk = casper_chunk { kind: CASPER_CHUNK_END, ..casper_chunk::default() };
            result = result.and_then(|()| self.chunk(chunk, some.as_bytes()));
        }
        self.header.finished = 1;
        let header = self.write_header();
        let synced = self.file.sync_data().map_err(|error| WriteError {
            path: self.path.clone(),
            offset: self.end,
            error,
        });
        result.and(header).and(synced)
    }

    /// Write a chunk at the end, or leave the file as it was.
    fn chunk(&mut self, mut chunk: casper_chunk, payload: &[u8]) -> Result<(), WriteError> {
        let fail = |path: &Path, offset, error| WriteError { path: path.to_owned(), offset, error };
        if payload.len() > CASPER_CHUNK_MAX as usize {
            let text = format!("a chunk of {} bytes; {CASPER_CHUNK_MAX} at most", payload.len());
            let error = io::Error::new(io::ErrorKind::InvalidInput, text);
            return Err(fail(&self.path, self.end, error));
        }
        if self.ragged {
            self.file.set_len(self.end).map_err(|source| fail(&self.path, self.end, source))?;
            self.ragged = false;
        }
        chunk.magic = CASPER_CHUNK_MAGIC;
        chunk.size = payload.len() as u32;
        chunk.sequence = self.sequence;
        chunk.crc = chunk_crc(&chunk, payload);
        let padding = [0u8; 8];
        let padding = &padding[..padded(payload.len()) - payload.len()];
        if let Err(source) = self.append([chunk.as_bytes(), payload, padding]) {
            self.ragged = self.file.set_len(self.end).is_err();
            return Err(fail(&self.path, self.end, source));
        }
        self.end += (CHUNK_BYTES + padded(payload.len())) as u64;
        self.sequence += 1;
        Ok(())
    }

    /// One system call where the disk takes all at once.
    fn append(&self, parts: [&[u8]; 3]) -> io::Result<()> {
        let mut slices = parts.map(IoSlice::new);
        let mut rest: &mut [IoSlice<'_>] = &mut slices;
        let mut offset = self.end;
        IoSlice::advance_slices(&mut rest, 0); // leaves out empty parts
        while !rest.is_empty() {
            match rustix::io::pwritev(&self.file, rest, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
