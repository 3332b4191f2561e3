// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of code that programs made themselves.

use std::io::{BufRead as _, BufReader, Read as _};

use crate::blame::apart::apart;
use crate::blame::jitdump;
use crate::blame::perf_map::PerfMap;
use crate::blame::space::MAPS_MOST_BYTES;
use cowlab_machine::process::Target;
use rustc_hash::FxHashMap;

/// No family is deeper; one that is goes round.
const GENERATIONS_MOST: usize = 64;

/// What processes wrote down for profilers.
#[derive(Default)]
pub struct MadeCode {
    /// Names by addresses.
    own: FxHashMap<u32, FxHashMap<u64, String>>,
    parents: FxHashMap<u32, u32>,
    /// Processes of which that took too much memory or time.
    pub refused: usize,
}

impl MadeCode {
    /// What living processes, each with the one that forked it if it runs on as it was forked, wrote of some addresses.
    pub fn read(processes: &[(u32, Option<u32>)], addresses: &[u64]) -> MadeCode {
        let written = apart(processes, |(pid, _)| {
            let map = written_down(*pid)?;
            let name = |address: &u64| Some((*address, map.name(*address)?.to_owned()));
            Some(addresses.iter().filter_map(name).collect::<Vec<_>>())
        });
        let mut all = MadeCode::default();
        for ((pid, parent), map) in processes.iter().zip(written) {
            all.refused += usize::from(map.is_none());
            all.own.extend(map.flatten().map(|map| (*pid, map.into_iter().collect())));
            all.parents.extend(parent.map(|parent| (*pid, parent)));
        }
        all
    }

    /// The function of a process at an address. Code from before a fork is in what the parent wrote.
    pub fn name(&self, pid: u32, address: u64) -> Option<&str> {
        let mut names = self.ancestors(pid).filter_map(|pid| self.own.get(&pid)?.get(&address));
        names.next().map(String::as_str)
    }

    /// Whether a process, or one that it was forked by, wrote anything.
    pub fn has(&self, pid: u32) -> bool {
        self.ancestors(pid).any(|pid| self.own.contains_key(&pid))
    }

    fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> {
        let parent = |pid: &u32| self.parents.get(pid).copied();
        std::iter::successors(Some(pid), parent).take(GENERATIONS_MOST)
    }
}

/// The map and the dump of a process; of code in both the map's name holds.
fn written_down(pid: u32) -> Option<PerfMap> {
    let target = Target::open(pid.cast_signed()).ok()?;
    let status = target.read("status").ok()?;
    let inside = cowlab_machine::status::field(&status, "NSpid")?;
    let inside = inside.split_whitespace().last()?.parse().ok()?;
    let dump_name = format!("/{}", jitdump::file_name(inside));
    let maps = BufReader::new(target.open_file("maps").ok()?.take(MAPS_MOST_BYTES));
    let mut maps = maps.lines().map_while(Result::ok);
    let mapped = maps.find(|line| line.ends_with(&dump_name));
    let mapped = mapped.and_then(|line| Some(line[line.find('/')?..].to_owned()));
    let map = PerfMap::read(target.pid(), inside, target.uid());
    let dump = jitdump::read(target.pid(), inside, target.uid(), mapped.as_deref());
    match (map, dump) {
        (Some(map), Some(dump)) => Some(map.or(dump)),
        (map, dump) => map.or(dump),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_the_names_of_its_parent_and_its_own_before() {
        let names =
            |of: &[(u64, &str)]| of.iter().map(|(at, name)| (*at, (*name).to_owned())).collect();
        let own = [(1, names(&[(0x10, "old"), (0x20, "kept")])), (2, names(&[(0x10, "new")]))];
        let parents = [(2, 1), (3, 2), (5, 5)].into_iter().collect();
        let made = MadeCode { own: own.into_iter().collect(), parents, refused: 0 };
        assert_eq!(made.name(1, 0x10), Some("old"));
        assert_eq!((made.name(3, 0x10), made.name(3, 0x20)), (Some("new"), Some("kept")));
        assert_eq!((made.name(4, 0x10), made.name(5, 0x10)), (None, None));
        assert!(made.has(3) && !made.has(5));
    }
}
