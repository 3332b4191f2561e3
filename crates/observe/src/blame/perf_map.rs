// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of code that a program made itself, as it writes them down for profilers
//! (linux: tools/perf/Documentation/jit-interface.txt).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;

use crate::blame::image::open_inside;

/// A file of more is not read to its end.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// Names are cut there.
const NAME_MOST_CHARS: usize = 1024;

#[derive(Debug, Default)]
pub struct PerfMap {
    /// Address, size, name; sorted. Of two at one address the later one holds.
    functions: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads the map of process `pid`, which is `inside` to those of its pid namespace; `None` where
    /// there is none, or it is neither that process's user's nor root's.
    pub fn read(pid: i32, inside: i32, uid: u32) -> Option<PerfMap> {
        let file = of_program(pid, &format!("/tmp/perf-{inside}.map"), uid)?;
        Some(PerfMap::decode(BufReader::new(file.take(MOST_BYTES))))
    }

    /// Of starts, sizes and names, of which the later holds.
    pub(crate) fn of(functions: impl IntoIterator<Item = (u64, u64, String)>) -> PerfMap {
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_by_key(|(start, ..)| *start);
        PerfMap { functions }
    }

    /// These, and of code that has none here those.
    pub fn or(self, other: PerfMap) -> PerfMap {
        PerfMap::of(other.functions.into_iter().chain(self.functions))
    }

    /// Decodes lines of start, size and name; others are left out.
    pub fn decode(text: impl BufRead) -> PerfMap {
        let line = |line: Vec<u8>| {
            let line = String::from_utf8_lossy(&line).into_owned();
            let mut words = line.splitn(3, ' ');
            let hex =
                |word: Option<&str>| u64::from_str_radix(word?.trim_start_matches("0x"), 16).ok();
            Some((
                hex(words.next())?,
                hex(words.next())?,
                words.next()?.trim().chars().take(NAME_MOST_CHARS).collect(),
            ))
        };
        let lines = text.split(b'\n').map_while(Result::ok);
        PerfMap::of(lines.filter_map(line))
    }

    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let (start, bytes, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < *bytes).then_some(name)
    }
}

/// A file that process `pid` wrote down, at a path of its own: of its user or root alone, since others would
/// choose the names.
pub(crate) fn of_program(pid: i32, path: &str, uid: u32) -> Option<File> {
    let file = open_inside(pid, path)?;
    let owner = file.metadata().ok()?.uid();
    (owner == uid || owner == 0).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_gives_names() {
        let text =
            b"7f00 20 LazyCompile:~work /srv/app.js:3\n0x7f40 10 py::f:/a b.py\nrubbish\n\xff 1\n";
        let map = PerfMap::decode(&text[..]);
        assert_eq!(map.name(0x7f1f), Some("LazyCompile:~work /srv/app.js:3"));
        assert_eq!(map.name(0x7f20), None);
        assert_eq!(map.name(0x7f40), Some("py::f:/a b.py"));
        assert_eq!(map.name(0), None);
    }
}
