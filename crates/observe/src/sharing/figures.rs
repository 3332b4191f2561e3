// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What looks at a family say. Pure.

use std::collections::{BTreeMap, VecDeque};

use cowlab_schema::live::{Verb, rows};
use cowlab_schema::{Key, Text, live};
use serde::Serialize;

use super::look::{Look, Seen};
use super::slots::Slots;

/// Looks that are kept of a worker: they say how fast sharing is lost now.
const KEPT: usize = 16;

/// What was seen of one process, oldest first.
#[derive(Debug, Clone, Default)]
pub struct History(VecDeque<Point>);

#[derive(Debug, Clone, Copy)]
struct Point {
    at_ns: u64,
    shared_bytes: u64,
    /// In swap, or merged by KSM: out of the shared memory, and nobody copied it.
    elsewhere_bytes: u64,
}

impl History {
    pub fn add(&mut self, at_ns: u64, seen: &Seen) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        let rollup = &seen.rollup;
        self.0.push_back(Point {
            at_ns,
            shared_bytes: shared_bytes(seen).unwrap_or(0),
            elsewhere_bytes: rollup.swapped_bytes.unwrap_or(0) + rollup.ksm_bytes.unwrap_or(0),
        });
    }

    /// How fast shared memory becomes less, over the most recent looks; 0 where it does not. `None`
    /// where some of it was swapped out or merged meanwhile: that is not lost.
    fn erosion_bytes_per_s(&self) -> Option<f64> {
        let from = self.0.front()?;
        let to = self.0.back()?;
        let passed_s = (to.at_ns - from.at_ns) as f64 / 1e9;
        let lost = from.shared_bytes.saturating_sub(to.shared_bytes);
        let is_known = lost == 0 || to.elsewhere_bytes <= from.elsewhere_bytes;
        (passed_s > 0.0 && is_known).then(|| lost as f64 / passed_s)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ByKind {
    /// Private memory, which a fork shares.
    pub fork_bytes: Option<u64>,
    pub file_bytes: Option<u64>,
    /// Shared memory: MAP_SHARED, /dev/shm, memfd, System V.
    pub shm_bytes: Option<u64>,
}

live! {
    "sharing";
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    pub struct Worker {
        /// Its pid.
        pid: i32;
        /// Who forked it; `None` of the parent of all.
        parent: Option<i32>;
        /// Its place in metrics; `None` of the parent, and where there is none left.
        slot: Option<usize>;
        /// Since it was forked.
        age_s: f64 => column "age" in s;
        /// Resident memory, as ps shows it
        rss_bytes: Option<u64> => sample "rss_bytes" in bytes, column "resident" in bytes;
        /// The same, shared pages divided by those who map them
        pss_bytes: Option<u64> => sample "pss_bytes" in bytes;
        /// Private memory that others map as well, since a fork
        shared_bytes: Option<u64> => sample "shared_bytes" in bytes, gauge "cowlab_sharing_shared" in bytes,
            column "shared" in bytes;
        /// Private memory that the process alone maps
        own_bytes: u64 => sample "own_bytes" in bytes, gauge "cowlab_sharing_own" in bytes,
            column "own" in bytes;
        /// The part of that at addresses at which its parent has a page as well
        copied_bytes: Option<u64> => sample "copied_bytes" in bytes, column "copied" in bytes;
        /// Pages of files.
        file_bytes: Option<u64> => column "files" in bytes;
        /// Shared memory.
        shm_bytes: Option<u64> => seldom "shm" in bytes;
        /// Merged because the content is the same, which no fork did.
        ksm_bytes: Option<u64>;
        /// In swap, where own and shared cannot be told apart.
        swapped_bytes: Option<u64> => seldom "swapped" in bytes;
        /// How fast the shared memory becomes less
        erosion_bytes_per_s: Option<f64> => sample "erosion_bytes_per_s" in bytes_per_s,
            gauge "cowlab_sharing_erosion" in bytes_per_second, column "loses/min" in bytes_per_minute;
        /// Until nothing is shared, at that rate; `None` where it is 0 or not known, where that is far beyond the
        /// worker's life so far, and where it will not go on: the worker is about to settle.
        shared_ends_s: Option<f64> => column "none in" in s;
        /// `own_bytes` at which older workers, which lose nothing any more, have settled, where this one still has
        /// less and loses some.
        settles_at_bytes: Option<u64>;
    }
}

live! {
    "sharing";
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    pub struct Figures {
        /// The parent.
        pid: i32;
        /// Its name.
        name: String;
        /// Rss of the parent and all workers, as ps adds it up
        rss_bytes: Option<u64> => gauge "cowlab_sharing_resident" in bytes;
        /// Pss of the parent and all workers: what they use together
        pss_bytes: Option<u64> => gauge "cowlab_sharing_used" in bytes;
        /// The difference, by what shares it.
        saved: ByKind;
        /// KSM's pages of everybody: as much of `saved.fork_bytes`, at most, is its doing.
        ksm_bytes: Option<u64>;
        /// In swap, shared pages divided by those who map them.
        swapped_bytes: Option<u64>;
        /// Own memory of the workers above the youngest's
        restart_saves_bytes: Option<u64> => gauge "cowlab_sharing_restart_saves" in bytes;
        /// Children that may not be looked at.
        unseen: Vec<i32>;
        /// The parent first, then its workers, the oldest first.
        workers: Vec<Worker>;
    }
}

pub const PID: Key<u32> = Key::new("pid", "The process");
pub const NAME: Key<Text> = Key::new("name", "The family's name");

pub fn figures() -> Verb {
    Verb {
        name: "sharing",
        about: "A look of `sharing --json`, and what `sharing --listen` serves by the labels `process`, a name, and \
                `slot`, a worker's place",
        parts: &[&PID, &NAME],
        rows: rows(Worker::FIGURES).chain(rows(Figures::FIGURES)).collect(),
    }
}

/// A rate goes on for so many times a worker's life, at most: what it writes first it does not write again.
const LIVES_AHEAD: f64 = 3.0;

/// Private memory in RAM that others map as well. What KSM merged is not among it, as far as its pages
/// are not counted as the process's own.
fn shared_bytes(of: &Seen) -> Option<u64> {
    let shared = of.rollup.anonymous_bytes?.saturating_sub(of.pages.own_bytes);
    Some(shared.saturating_sub(of.rollup.ksm_bytes.unwrap_or(0)))
}

/// Rss − Anonymous − RssShmem. What was locked or written meanwhile may make it a page too little.
fn file_bytes(of: &Seen) -> Option<u64> {
    let others = of.rollup.anonymous_bytes? + of.shm_bytes?;
    Some(of.rollup.rss_bytes?.saturating_sub(others))
}

impl Worker {
    fn of(seen: &Seen, now_ns: u64, history: Option<&History>, slot: Option<usize>) -> Worker {
        let shared_bytes = shared_bytes(seen);
        let erosion = history.and_then(History::erosion_bytes_per_s);
        let left = |(rate, shared): (f64, u64)| (rate > 0.0).then(|| shared as f64 / rate);
        let age_s = now_ns.saturating_sub(seen.started_ns) as f64 / 1e9;
        Worker {
            pid: seen.pid,
            parent: seen.parent,
            slot,
            age_s,
            rss_bytes: seen.rollup.rss_bytes,
            pss_bytes: seen.rollup.pss_bytes,
            shared_bytes,
            own_bytes: seen.pages.own_bytes,
            copied_bytes: seen.pages.copied_bytes,
            file_bytes: file_bytes(seen),
            shm_bytes: seen.shm_bytes,
            ksm_bytes: seen.rollup.ksm_bytes,
            swapped_bytes: seen.rollup.swapped_bytes,
            erosion_bytes_per_s: shared_bytes.and(erosion),
            shared_ends_s: erosion
                .zip(shared_bytes)
                .and_then(left)
                .filter(|left| *left <= age_s * LIVES_AHEAD),
            settles_at_bytes: None,
        }
    }
}

impl Figures {
    /// Of the newest look.
    pub fn of(
        name: &str,
        look: &Look,
        histories: &BTreeMap<(i32, u64), History>,
        slots: &Slots,
    ) -> Figures {
        let members = &look.members;
        let sum = |of: fn(&Seen) -> Option<u64>| members.iter().map(of).sum::<Option<u64>>();
        let saved = |whole: fn(&Seen) -> Option<u64>, shares: fn(&Seen) -> Option<u64>| {
            Some(sum(whole)?.saturating_sub(sum(shares)?))
        };
        let mut workers: Vec<Worker> = members
            .iter()
            .map(|seen| {
                let key = seen.key();
                Worker::of(seen, look.at_ns, histories.get(&key), slots.of(key))
            })
            .collect();
        let is_parent = |one: &Worker| one.parent.is_none();
        workers.sort_by(|a, b| is_parent(b).cmp(&is_parent(a)).then(b.age_s.total_cmp(&a.age_s)));
        settle(&mut workers);
        Figures {
            pid: members.first().map_or(0, |parent| parent.pid),
            name: name.to_owned(),
            rss_bytes: sum(|of| of.rollup.rss_bytes),
            pss_bytes: sum(|of| of.rollup.pss_bytes),
            saved: ByKind {
                fork_bytes: saved(
                    |of| of.rollup.anonymous_bytes,
                    |of| of.rollup.pss_anonymous_bytes,
                ),
                file_bytes: saved(file_bytes, |of| of.rollup.pss_file_bytes),
                shm_bytes: saved(|of| of.shm_bytes, |of| of.rollup.pss_shmem_bytes),
            },
            ksm_bytes: sum(|of| of.rollup.ksm_bytes),
            swapped_bytes: sum(|of| of.rollup.pss_swapped_bytes),
            restart_saves_bytes: restart_saves(&workers),
            unseen: look.unseen.clone(),
            workers,
        }
    }

    /// Without the parent of all, the oldest first.
    pub fn forked(&self) -> impl DoubleEndedIterator<Item = &Worker> {
        forked(&self.workers)
    }

    /// For how long, at most, restarting saves that: until the workers have as much of their own again, by the
    /// rate at which the youngest loses now, or by the age of one that has.
    pub fn restart_lasts_s(&self) -> Option<f64> {
        let (oldest, youngest) = self.oldest_and_youngest()?;
        let has_grown = |one: &&Worker| one.own_bytes as f64 >= 0.9 * oldest.own_bytes as f64;
        let by_age =
            self.forked().filter(has_grown).map(|one| one.age_s).fold(f64::INFINITY, f64::min);
        let elders: Vec<u64> = self
            .forked()
            .filter(|one| one.own_bytes > youngest.own_bytes)
            .map(|one| one.own_bytes - youngest.own_bytes)
            .collect();
        let mean = elders.iter().sum::<u64>() as f64 / elders.len().max(1) as f64;
        let rate = youngest.erosion_bytes_per_s.filter(|rate| *rate > 0.0);
        let by_rate = rate.map_or(f64::INFINITY, |rate| mean / rate);
        Some(by_age.min(by_rate))
    }

    /// The oldest worker and the youngest that tell what restarting saves: they have very different ages.
    pub fn oldest_and_youngest(&self) -> Option<(&Worker, &Worker)> {
        oldest_and_youngest(&self.workers)
    }
}

/// A younger one may be a child that is about to execute another program.
const GROWN_S: f64 = 2.0;

fn forked(workers: &[Worker]) -> impl DoubleEndedIterator<Item = &Worker> {
    workers.iter().filter(|one| one.parent.is_some())
}

fn oldest_and_youngest(workers: &[Worker]) -> Option<(&Worker, &Worker)> {
    let oldest = forked(workers).next()?;
    let youngest = forked(workers).rfind(|one| one.age_s >= GROWN_S)?;
    (youngest.age_s * 2.0 <= oldest.age_s).then_some((oldest, youngest))
}

/// One that loses less than this share of its own memory in a minute has settled.
const SETTLED_SHARE: f64 = 0.01;

/// What is lost at first is not lost for ever: where all workers of twice a worker's age have settled, it will.
fn settle(workers: &mut [Worker]) {
    let level = |one: &Worker| -> Option<u64> {
        one.erosion_bytes_per_s.filter(|rate| *rate > 0.0)?;
        let mut level = None;
        for elder in forked(workers).filter(|elder| elder.age_s >= 2.0 * one.age_s) {
            let a_minute = elder.erosion_bytes_per_s? * 60.0;
            if a_minute > elder.own_bytes as f64 * SETTLED_SHARE {
                return None;
            }
            level = level.max(Some(elder.own_bytes));
        }
        level.filter(|level| *level > one.own_bytes)
    };
    let levels: Vec<Option<u64>> = workers.iter().map(level).collect();
    for (one, level) in workers.iter_mut().zip(levels).filter(|(one, _)| one.parent.is_some()) {
        one.settles_at_bytes = level;
        one.shared_ends_s = one.shared_ends_s.filter(|_| level.is_none());
    }
}

fn restart_saves(workers: &[Worker]) -> Option<u64> {
    let (_, youngest) = oldest_and_youngest(workers)?;
    Some(forked(workers).map(|one| one.own_bytes.saturating_sub(youngest.own_bytes)).sum())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cowlab_machine::Smaps;

    use super::super::look::Pages;
    use super::*;

    const MIB: u64 = 1 << 20;
    const S: u64 = 1_000_000_000;

    /// Saved lines of a smaps_rollup (Linux 6.18), some changed.
    fn rollup(lines: &[(&str, u64)]) -> Smaps {
        let head = "5651b049d000-7fff01dac000 ---p 00000000 00:00 0    [rollup]\n".to_owned();
        let line = |(key, mib): &(&str, u64)| format!("{key}:{:>17} kB\n", mib << 10);
        let text = head + &lines.iter().map(line).collect::<String>();
        Smaps::decode(&text, Path::new("smaps_rollup")).unwrap()
    }

    fn seen(pid: i32, own: u64, started_s: u64, lines: &[(&str, u64)]) -> Seen {
        let parent = (pid != 1).then_some(1);
        Seen {
            pid,
            parent,
            started_ns: started_s * S,
            rollup: rollup(lines),
            shm_bytes: Some(20 * MIB),
            pages: Pages { own_bytes: own * MIB, copied_bytes: parent.map(|_| own / 2 * MIB) },
        }
    }

    const USUAL: [(&str, u64); 9] = [
        ("Rss", 150),
        ("Pss", 60),
        ("Pss_Anon", 45),
        ("Pss_File", 5),
        ("Pss_Shmem", 10),
        ("Anonymous", 100),
        ("KSM", 0),
        ("Swap", 0),
        ("SwapPss", 0),
    ];

    fn figures(members: Vec<Seen>) -> Figures {
        let look = Look { at_ns: 1000 * S, members, unseen: vec![9] };
        Figures::of("server", &look, &BTreeMap::new(), &Slots::default())
    }

    #[test]
    fn what_fork_files_and_shared_memory_save_is_told_apart() {
        let all = figures(vec![
            seen(1, 10, 0, &USUAL),
            seen(3, 40, 900, &USUAL),
            seen(2, 60, 100, &USUAL),
        ]);
        assert_eq!((all.rss_bytes, all.pss_bytes), (Some(450 * MIB), Some(180 * MIB)));
        let by_kind = (all.saved.fork_bytes, all.saved.file_bytes, all.saved.shm_bytes);
        assert_eq!(by_kind, (Some(165 * MIB), Some(75 * MIB), Some(30 * MIB)));
        let pids: Vec<i32> = all.workers.iter().map(|one| one.pid).collect();
        assert_eq!((pids, all.unseen), (vec![1, 2, 3], vec![9]));
        let oldest = &all.workers[1];
        assert_eq!((oldest.shared_bytes, oldest.copied_bytes), (Some(40 * MIB), Some(30 * MIB)));
        assert_eq!((oldest.age_s, oldest.file_bytes), (900.0, Some(30 * MIB)));
        // The one of 60 MiB over the youngest's 40.
        assert_eq!(all.restart_saves_bytes, Some(20 * MIB));
        assert_eq!((oldest.erosion_bytes_per_s, oldest.shared_ends_s), (None, None));
    }

    #[test]
    fn what_ksm_merged_and_swap_took_is_not_shared_by_fork() {
        let mut lines = USUAL;
        (lines[6], lines[7], lines[8]) = (("KSM", 30), ("Swap", 16), ("SwapPss", 8));
        let all = figures(vec![seen(1, 10, 0, &lines), seen(2, 60, 100, &lines)]);
        assert_eq!(all.workers[1].shared_bytes, Some(10 * MIB));
        assert_eq!((all.ksm_bytes, all.swapped_bytes), (Some(60 * MIB), Some(16 * MIB)));
        assert_eq!(all.workers[1].swapped_bytes, Some(16 * MIB));
        assert_eq!(all.restart_saves_bytes, None, "there is one worker");
    }

    #[test]
    fn a_line_that_the_kernel_lacks_is_absent_and_never_0() {
        let old: Vec<_> = USUAL.into_iter().filter(|(key, _)| !key.contains('_')).collect();
        let all = figures(vec![seen(1, 10, 0, &old[..3]), seen(2, 60, 100, &old[..3])]);
        assert_eq!(all.saved, ByKind::default());
        assert_eq!((all.ksm_bytes, all.swapped_bytes), (None, None));
        assert_eq!(all.workers[1].shared_bytes, Some(40 * MIB));
        let none = figures(vec![seen(1, 10, 0, &old[..2])]);
        assert_eq!(none.workers[0].shared_bytes, None);
    }

    #[test]
    fn erosion_is_of_the_recent_looks_and_what_grows_loses_nothing() {
        let mut history = History::default();
        assert_eq!(history.erosion_bytes_per_s(), None);
        for look in 0..300u64 {
            // Fast at first, then a MiB in 10 s.
            let own = 20 + if look < 200 { 0 } else { (look - 200) / 10 };
            history.add(look * S, &seen(2, own, 0, &USUAL));
            assert_eq!(history.erosion_bytes_per_s().is_some(), look > 0);
        }
        let rate = history.erosion_bytes_per_s().unwrap();
        assert!((MIB as f64 / 15.0..=MIB as f64 / 7.0).contains(&rate), "{rate}");
        assert_eq!(history.0.len(), KEPT);
        let now = seen(2, 29, 0, &USUAL);
        let worker = Worker::of(&now, 400 * S, Some(&history), None);
        let ends_s = worker.shared_ends_s.unwrap();
        // The same rate in its first minute says nothing of later ones.
        let young = Worker::of(&now, 60 * S, Some(&history), None);
        assert_eq!((young.shared_ends_s, young.erosion_bytes_per_s), (None, Some(rate)));
        assert!((ends_s * rate - (71 * MIB) as f64).abs() < 1.0, "{ends_s}");
        // What is swapped out is not lost.
        let mut lines = USUAL;
        (lines[5], lines[7]) = (("Anonymous", 50), ("Swap", 50));
        let mut swapped = history.clone();
        swapped.add(301 * S, &seen(2, 29, 0, &lines));
        assert_eq!(swapped.erosion_bytes_per_s(), None);
        history.add(301 * S, &seen(2, 1, 0, &USUAL));
        assert_eq!(history.erosion_bytes_per_s(), Some(0.0));
        let worker = Worker::of(&now, 300 * S, Some(&history), None);
        assert_eq!(worker.shared_ends_s, None);
    }
}
