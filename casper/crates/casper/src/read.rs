// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading a trace. No bytes make it panic, hang, or ask for memory by a size that the file claims.

mod chunks;
mod clock;
mod damage;
mod merge;
mod record;
mod source;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use zerocopy::FromBytes;

pub use chunks::{Chunk, Chunks};
pub use clock::Clock;
pub use damage::{Damage, Lost};
pub use merge::Merge;
pub use record::{Field, Owner, Record, Value};

use crate::meta::Metadata;
use crate::record::*;
use crate::write::header_crc;
use source::Source;

/// A trace that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error("cannot read {} at offset {offset}: {source}", path.display())]
    Io {
        /// The trace.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// A pipe, a device, a folder.
    #[error("{} is not a plain file; copy the trace into one first", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// 0 bytes.
    #[error("{} is empty: its recorder ended before it wrote anything", path.display())]
    Empty {
        /// The trace.
        path: PathBuf,
    },
    /// Something else.
    #[error("{} is not a CASPER trace: it does not begin with CASPER", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
    },
    /// Not even the header is whole.
    #[error("{} was cut: it has {bytes} bytes, and its header alone has {FILE_BYTES}", path.display())]
    Cut {
        /// The trace.
        path: PathBuf,
        /// How long it is.
        bytes: u64,
    },
    /// Recorded on a machine of the other byte order.
    #[error("{} was recorded on a machine of another byte order; read it on such a machine", path.display())]
    ByteOrder {
        /// The trace.
        path: PathBuf,
    },
    /// A version that this program does not know.
    #[error("{} has version {version} of the format, this program reads {CASPER_VERSION}: use a newer cowlab", path.display())]
    Version {
        /// The trace.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The checksum of the header does not fit.
    #[error("the header of {} (offset 0, {FILE_BYTES} bytes) is damaged: its checksum does not fit", path.display())]
    HeaderDamaged {
        /// The trace.
        path: PathBuf,
    },
}

/// A trace that is open.
#[derive(Debug)]
pub struct Trace {
    source: Source,
    path: PathBuf,
    header: casper_file,
    /// Its length when it was opened: what is written later is not looked at.
    bytes: u64,
}

impl Trace {
    /// Open a trace. One that is still being written is read up to what is whole now.
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, ReadError> {
        let path = path.as_ref().to_owned();
        let io = |source| ReadError::Io { path: path.clone(), offset: 0, source };
        // Looked at before it is opened, since opening a FIFO waits for a writer.
        if !std::fs::metadata(&path).map_err(io)?.is_file() {
            return Err(ReadError::NotAFile { path });
        }
        let file = File::open(&path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        Trace::new(Source::File(file), path, bytes)
    }

    /// Read a trace that is in memory; `name` stands for its path.
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Trace, ReadError> {
        let length = bytes.len() as u64;
        Trace::new(Source::Memory(bytes.into()), PathBuf::from(name), length)
    }

    fn new(source: Source, path: PathBuf, bytes: u64) -> Result<Trace, ReadError> {
        let mut head = [0u8; FILE_BYTES];
        // Tried again, since a recorder may be writing the header at this moment.
        for attempt in 0..3 {
            let got = source.read_at(&mut head, 0).map_err(|source| ReadError::Io {
                path: path.clone(),
                offset: 0,
                source,
            })?;
            match judge(&head[..got], &path, bytes) {
                Ok(header) => return Ok(Trace { source, path, header, bytes }),
                Err(ReadError::HeaderDamaged { .. }) if attempt < 2 && source.may_change() => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                Err(error) => return Err(error),
            }
        }
        Err(ReadError::HeaderDamaged { path })
    }

    /// The header.
    pub fn header(&self) -> &casper_file {
        &self.header
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length when it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The command that was recorded, as given.
    pub fn command(&self) -> String {
        String::from_utf8_lossy(text(&self.header.command)).into_owned()
    }

    /// What turns ticks into time.
    pub fn clock(&self) -> Clock {
        Clock::of(&self.header)
    }

    /// The chunks in the order of the file, damaged ones left out and accounted for.
    pub fn chunks(&self) -> Chunks<'_> {
        Chunks::new(self, false)
    }

    /// All metadata, found without reading the events.
    pub fn metadata(&self) -> Result<Metadata, ReadError> {
        let mut metadata = Metadata::default();
        let mut chunks = Chunks::new(self, true);
        while let Some(chunk) = chunks.next()? {
            if chunk.head.kind == CASPER_CHUNK_META {
                metadata.add(chunk.payload);
            }
        }
        Ok(metadata)
    }

    /// Every record in the order of the file, which is the order in time within each stream. The
    /// fastest way through a trace: nothing is copied.
    pub fn for_each(
        &self,
        mut each: impl FnMut(&Chunk<'_>, crate::walk::Raw<'_>),
    ) -> Result<Damage, ReadError> {
        let mut chunks = self.chunks();
        while let Some(chunk) = chunks.next()? {
            if chunk.head.kind == CASPER_CHUNK_DATA {
                let mut walk = chunk.records();
                for raw in walk.by_ref() {
                    each(&chunk, raw);
                }
            }
        }
        Ok(chunks.damage())
    }

    /// All records of all streams in the order of time.
    pub fn merge(&self) -> Result<Merge<'_>, ReadError> {
        Merge::new(self)
    }
}

/// The header, or the one thing that is wrong with it.
fn judge(head: &[u8], path: &Path, bytes: u64) -> Result<casper_file, ReadError> {
    let path = || path.to_owned();
    let magic = &CASPER_FILE_MAGIC[..8];
    if head.is_empty() {
        return Err(ReadError::Empty { path: path() });
    }
    if !head.starts_with(&magic[..head.len().min(8)]) {
        return Err(ReadError::NotATrace { path: path() });
    }
    if head.len() < FILE_BYTES {
        return Err(ReadError::Cut { path: path(), bytes });
    }
    let Ok((header, _)) = casper_file::read_from_prefix(head) else {
        return Err(ReadError::Cut { path: path(), bytes });
    };
    if header.byte_order == CASPER_BYTE_ORDER.swap_bytes() {
        return Err(ReadError::ByteOrder { path: path() });
    }
    // A newer version may compute its checksum over something else.
    if header.byte_order == CASPER_BYTE_ORDER && header.version > CASPER_VERSION {
        return Err(ReadError::Version { path: path(), version: header.version });
    }
    if header.byte_order != CASPER_BYTE_ORDER
        || header.version == 0
        || header.header_bytes as usize != FILE_BYTES
        || header.crc != header_crc(&header)
    {
        return Err(ReadError::HeaderDamaged { path: path() });
    }
    Ok(header)
}
