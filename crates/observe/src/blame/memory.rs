// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is on a stack far above its pointer, read later from the process itself: the frames there stay for as
//! long as their thread does.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use rustc_hash::FxHashMap;

/// Processes whose memory is kept open.
const KEPT_MOST: usize = 64;
const PAGE_BYTES: usize = 4096;

#[derive(Default)]
pub struct Memory {
    files: FxHashMap<u32, Option<File>>,
    page: Vec<u8>,
    at: (u32, u64),
}

impl Memory {
    /// Forgets what was read: it is another copy's stack now.
    pub fn renew(&mut self) {
        self.page.clear();
    }

    /// The word at an address of a process; `None` where it has ended or may not be read.
    pub fn word(&mut self, pid: u32, address: u64) -> Option<u64> {
        let start = address & !(PAGE_BYTES as u64 - 1);
        if self.page.is_empty() || self.at != (pid, start) {
            if self.files.len() > KEPT_MOST {
                self.files.clear();
            }
            let open = || File::open(format!("/proc/{pid}/mem")).ok();
            let file = self.files.entry(pid).or_insert_with(open).as_ref()?;
            self.page.resize(PAGE_BYTES, 0);
            self.at = (pid, start);
            if file.read_exact_at(&mut self.page, start).is_err() {
                self.page.clear();
            }
        }
        let at = (address - start) as usize;
        Some(u64::from_le_bytes(self.page.get(at..at + 8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_process_are_read_and_of_none_are_not() {
        let (mut memory, word, own) = (Memory::default(), 0x1988_u64, std::process::id());
        let address = &raw const word as u64;
        assert_eq!(memory.word(own, address), Some(0x1988));
        assert_eq!(memory.word(own, 8), None);
        assert_eq!(memory.word(0, address), None);
    }
}
