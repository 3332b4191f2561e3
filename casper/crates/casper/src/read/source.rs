// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a trace's bytes are. A file is read by pread: under a mapping, one that is truncated
//! meanwhile ends its reader with SIGBUS.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

#[derive(Debug)]
pub(super) enum Source {
    File(File),
    Memory(Arc<[u8]>),
}

impl Source {
    /// Read until `into` is full or the bytes end; says how many there were.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Source::File(file) => {
                let mut got = 0;
                while got < into.len() {
                    match file.read_at(&mut into[got..], offset + got as u64) {
                        Ok(0) => break,
                        Ok(read) => got += read,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(got)
            }
            Source::Memory(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let got = into.len().min(bytes.len() - from);
                into[..got].copy_from_slice(&bytes[from..from + got]);
                Ok(got)
            }
        }
    }

    pub fn may_change(&self) -> bool {
        matches!(self, Source::File(_))
    }
}
