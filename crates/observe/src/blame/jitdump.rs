// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of code that a program made itself, as it dumps them for `perf inject --jit`
//! (linux: tools/perf/Documentation/jitdump-specification.txt).

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read};

use crate::blame::perf_map::{MOST_BYTES, PerfMap, of_program};

/// "JiTD", as a number of the machine that wrote it.
const MAGIC: u32 = 0x4a69_5444;
/// Of the file, and of a record.
const HEADER_BYTES: usize = 40;
const RECORD_BYTES: usize = 16;
/// What a code-load record has before its name, and a code-move record in all.
const LOAD_BYTES: usize = 40;
const MOVE_BYTES: usize = 48;
/// Names are cut there, as the code behind them is no part of them.
const NAME_MOST_BYTES: u64 = 1024;
const LOAD: u32 = 0;
const MOVE: u32 = 1;

/// Reads the dump of process `pid`, which is `inside` to those of its pid namespace: in /tmp, or where the
/// process has it mapped, which is how `perf` finds it. `None` where there is none, or it is neither that
/// process's user's nor root's.
pub fn read(pid: i32, inside: i32, uid: u32, mapped: Option<&str>) -> Option<PerfMap> {
    let path = format!("/tmp/{}", file_name(inside));
    let file = [Some(path.as_str()), mapped]
        .into_iter()
        .flatten()
        .find_map(|path| of_program(pid, path, uid))?;
    Some(decode(BufReader::new(file.take(MOST_BYTES))))
}

/// The dump of a process, as its pid namespace numbers it.
pub fn file_name(inside: i32) -> String {
    format!("jit-{inside}.dump")
}

/// Decodes the records that load and move code, to the end or to the first one that is cut or impossible: the
/// file may be growing.
pub fn decode(mut file: impl BufRead) -> PerfMap {
    let mut functions = Functions::default();
    if let Some(is_swapped) = header(&mut file) {
        while record(&mut file, is_swapped, &mut functions).is_some() {}
    }
    PerfMap::of(functions.by_address.into_iter().map(|(at, (bytes, name))| (at, bytes, name)))
}

/// Code by its beginning, and where each piece was loaded.
#[derive(Default)]
struct Functions {
    by_address: BTreeMap<u64, (u64, String)>,
    by_index: HashMap<u64, u64>,
}

impl Functions {
    fn load(&mut self, index: u64, at: u64, bytes: u64, name: String) {
        self.by_address.insert(at, (bytes, name));
        self.by_index.insert(index, at);
    }

    /// The older place has another function soon, or none.
    fn moved(&mut self, index: u64, to: u64, bytes: u64) {
        let Some(known) = self.by_index.get(&index).and_then(|at| self.by_address.remove(at))
        else {
            return;
        };
        self.load(index, to, bytes, known.1);
    }
}

/// Reads the file's head; whether its numbers are the other way round.
fn header(file: &mut impl BufRead) -> Option<bool> {
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact(&mut bytes).ok()?;
    let is_swapped = match number(&bytes, 0, false)? {
        MAGIC => false,
        magic if magic.swap_bytes() == MAGIC => true,
        _ => return None,
    };
    let size = number(&bytes, 8, is_swapped)? as usize;
    skip(file, size.checked_sub(HEADER_BYTES)? as u64)?;
    Some(is_swapped)
}

fn record(file: &mut impl BufRead, is_swapped: bool, to: &mut Functions) -> Option<()> {
    let mut head = [0; RECORD_BYTES];
    file.read_exact(&mut head).ok()?;
    let size = number(&head, 4, is_swapped)? as usize;
    let body = size.checked_sub(RECORD_BYTES)? as u64;
    let mut body = file.take(body);
    let mut bytes = [0; MOVE_BYTES];
    let long = |bytes: &[u8], at| wide(bytes, at, is_swapped);
    match number(&head, 0, is_swapped)? {
        LOAD => {
            body.read_exact(&mut bytes[..LOAD_BYTES]).ok()?;
            let mut name = Vec::new();
            (&mut body).take(NAME_MOST_BYTES).read_until(0, &mut name).ok()?;
            let name = name.strip_suffix(&[0]).unwrap_or(&name);
            let name = String::from_utf8_lossy(name).into_owned();
            let [at, size, index] = [16, 24, 32].map(|at| long(&bytes, at));
            to.load(index?, at?, size?, name);
        }
        MOVE => {
            body.read_exact(&mut bytes).ok()?;
            let [at, size, index] = [24, 32, 40].map(|at| long(&bytes, at));
            to.moved(index?, at?, size?);
        }
        _ => {}
    }
    let rest = body.limit();
    skip(file, rest)
}

/// `None` where the file ends before.
fn skip(file: &mut impl BufRead, bytes: u64) -> Option<()> {
    let skipped = std::io::copy(&mut file.take(bytes), &mut std::io::sink()).ok()?;
    (skipped == bytes).then_some(())
}

fn number(bytes: &[u8], at: usize, is_swapped: bool) -> Option<u32> {
    let number = u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
    Some(if is_swapped { number.swap_bytes() } else { number })
}

fn wide(bytes: &[u8], at: usize, is_swapped: bool) -> Option<u64> {
    let number = u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
    Some(if is_swapped { number.swap_bytes() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(id: u32, body: &[u8]) -> Vec<u8> {
        let mut record = id.to_ne_bytes().to_vec();
        record.extend(((RECORD_BYTES + body.len()) as u32).to_ne_bytes());
        record.extend([0; 8]);
        record.extend(body);
        record
    }

    fn load(index: u64, at: u64, code: &[u8], name: &[u8]) -> Vec<u8> {
        let mut body = [4_u32.to_ne_bytes(), 5_u32.to_ne_bytes()].concat();
        for value in [at, at, code.len() as u64, index] {
            body.extend(value.to_ne_bytes());
        }
        body.extend([name, &[0], code].concat());
        head(LOAD, &body)
    }

    fn moved(index: u64, from: u64, to: u64, bytes: u64) -> Vec<u8> {
        let mut body = [4_u32.to_ne_bytes(), 5_u32.to_ne_bytes()].concat();
        for value in [to, from, to, bytes, index] {
            body.extend(value.to_ne_bytes());
        }
        head(MOVE, &body)
    }

    fn dump(records: &[Vec<u8>]) -> Vec<u8> {
        let mut file = MAGIC.to_ne_bytes().to_vec();
        // Version, size with 8 bytes that nobody knows, machine.
        for value in [1_u32, 48, 62, 0, 4] {
            file.extend(value.to_ne_bytes());
        }
        file.resize(48, 0);
        file.extend(records.concat());
        file
    }

    fn example() -> Vec<u8> {
        dump(&[
            load(1, 0x7f00, &[0x90; 0x20], b"py::work:/srv/app.py"),
            head(2, &[1; 24]),
            load(2, 0x7f20, &[0; 0x10], b"second"),
            moved(1, 0x7f00, 0x9000, 0x18),
            moved(7, 0x7f20, 0xa000, 8),
            load(3, 0x7f20, &[0; 8], b"\xffthird"),
            head(3, &[]),
        ])
    }

    #[test]
    fn code_has_the_name_that_was_loaded_or_moved_there_last() {
        let map = decode(&example()[..]);
        assert_eq!(map.name(0x7f00), None);
        assert_eq!(map.name(0x9017), Some("py::work:/srv/app.py"));
        assert_eq!(map.name(0x9018), None);
        assert_eq!(map.name(0x7f27), Some("\u{fffd}third"));
        assert_eq!(map.name(0x7f28), None, "the shorter one replaced it");
        assert_eq!(map.name(0xa000), None, "nothing was moved there");
    }

    #[test]
    fn a_file_of_the_other_byte_order_is_read() {
        let mut file = [0x4a, 0x69, 0x54, 0x44].to_vec();
        for value in [1_u32, 40, 62, 0, 4] {
            file.extend(value.to_be_bytes());
        }
        file.resize(40, 0);
        let name = b"f\0";
        file.extend([LOAD.to_be_bytes(), 58_u32.to_be_bytes(), [0; 4], [0; 4]].concat());
        file.extend([0; 8]);
        for value in [0x10_u64, 0x10, 0, 1] {
            file.extend(value.to_be_bytes());
        }
        file.extend(name);
        assert_eq!(decode(&file[..]).name(0x10), None, "no code");
        let at = file.len() - name.len() - 9;
        file[at] = 4;
        assert_eq!(decode(&file[..]).name(0x13), Some("f"));
    }

    #[test]
    fn a_cut_file_gives_what_is_whole_and_rubbish_nothing() {
        let whole = example();
        let names = |bytes: &[u8]| {
            let map = decode(bytes);
            [0x7f00, 0x7f20, 0x9000].map(|at| map.name(at).map(str::to_owned))
        };
        let mut known = 0;
        for at in 0..=whole.len() {
            let count = names(&whole[..at]).iter().flatten().count();
            assert!(count >= known.min(1), "cut at {at}");
            known = count;
        }
        assert_eq!(known, 2);
        for rubbish in [&b""[..], b"no dump", &[0xff; 100]] {
            assert_eq!(names(rubbish), [None, None, None]);
        }
        // Sizes that cannot be.
        for (at, size) in [(8, 0_u32), (8, u32::MAX), (52, 0), (52, 15), (52, u32::MAX)] {
            let mut file = example();
            file[at..at + 4].copy_from_slice(&size.to_ne_bytes());
            decode(&file[..]);
        }
    }
}
