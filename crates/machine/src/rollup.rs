// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a process occupies, shared pages by their share: `/proc/PID/smaps_rollup`
//! (proc_pid_smaps(5)), in bytes.

use std::path::Path;

use crate::mappings;
use crate::root::{ReadError, Root};

/// The file, for messages.
pub const ROLLUP: &str = "/proc/PID/smaps_rollup";

/// A process's memory; a line that this kernel does not have is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rollup {
    /// Rss.
    pub rss_bytes: Option<u64>,
    /// Pss: of each page what it is divided by the processes that map it.
    pub pss_bytes: Option<u64>,
    /// Anonymous: the part of Rss that copy-on-write is about.
    pub anonymous_bytes: Option<u64>,
    /// Pss_Anon: the same part of Pss.
    pub pss_anonymous_bytes: Option<u64>,
    /// Pss_File: that of pages of files.
    pub pss_file_bytes: Option<u64>,
    /// Pss_Shmem: that of shared memory.
    pub pss_shmem_bytes: Option<u64>,
    /// KSM: the part of Anonymous that was merged because its content is the same.
    pub ksm_bytes: Option<u64>,
    /// Swap.
    pub swapped_bytes: Option<u64>,
    /// SwapPss: of each swapped page its share.
    pub pss_swapped_bytes: Option<u64>,
    /// Private_Dirty: what no other process maps, written since it was mapped.
    pub private_dirty_bytes: Option<u64>,
    /// AnonHugePages: the part of Anonymous that is mapped by whole huge pages.
    pub huge_bytes: Option<u64>,
}

impl Rollup {
    /// Reads the file of process `pid`; `None` where there is no such file or process, or where it
    /// may not be read.
    pub fn read(root: &Root, pid: u32) -> Result<Option<Rollup>, ReadError> {
        let file = format!("proc/{pid}/smaps_rollup");
        match root.read(&file) {
            Ok(Some(text)) if !text.is_empty() => {
                Rollup::decode(&text, &root.path(&file)).map(Some)
            }
            Ok(_) => Ok(None),
            // A process that ended after its file was opened (ESRCH), or another user's.
            Err(ReadError::Io { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Decodes the file's text. `path` is for messages.
    pub fn decode(text: &str, path: &Path) -> Result<Rollup, ReadError> {
        // All of it stands under one line like a mapping's.
        let sums =
            mappings::parse(path, text)?.pop().and_then(|all| all.details).unwrap_or_default();
        Ok(Rollup {
            rss_bytes: sums.rss_bytes,
            pss_bytes: sums.pss_bytes,
            anonymous_bytes: sums.anonymous_bytes,
            pss_anonymous_bytes: sums.pss_anonymous_bytes,
            pss_file_bytes: sums.pss_file_bytes,
            pss_shmem_bytes: sums.pss_shmem_bytes,
            ksm_bytes: sums.ksm_bytes,
            swapped_bytes: sums.swapped_bytes,
            pss_swapped_bytes: sums.pss_swapped_bytes,
            private_dirty_bytes: sums.private_dirty_bytes,
            huge_bytes: sums.huge_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00400000-7ffea870a000 ---p 00000000 00:00 0      [rollup]\n\
        Rss:              277636 kB\nPss:              152832 kB\nPss_Anon:         137480 kB\n\
        Anonymous:        262212 kB\nAnonHugePages:      4096 kB\n";

    #[test]
    fn figures_are_bytes_and_absent_ones_none() {
        let rollup = Rollup::decode(TEXT, Path::new(ROLLUP)).unwrap();
        assert_eq!(rollup.rss_bytes, Some(277_636 << 10));
        assert_eq!(rollup.pss_anonymous_bytes, Some(137_480 << 10));
        assert_eq!(rollup.huge_bytes, Some(4 << 20));
        let old = TEXT.replace("Pss_Anon", "Later");
        assert_eq!(Rollup::decode(&old, Path::new(ROLLUP)).unwrap().pss_anonymous_bytes, None);
        assert!(Rollup::decode(&TEXT[..TEXT.len() - 3], Path::new(ROLLUP)).is_err());
    }

    #[test]
    fn ones_own_memory_is_told_and_nobodys_is_not() {
        let own = Rollup::read(&Root::default(), std::process::id()).unwrap();
        assert!(own.is_none_or(|own| own.rss_bytes > Some(0)));
        assert_eq!(Rollup::read(&Root::default(), u32::MAX).unwrap(), None);
    }
}
