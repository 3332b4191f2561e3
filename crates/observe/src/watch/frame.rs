// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known at one refresh: the format of `--json`, and what views and metrics are made of. docs/reference/watch.md describes it.

use cowlab_machine::Room;
use cowlab_schema::live::{Verb, rows};
use cowlab_schema::{Key, Text, live};
use serde::Serialize;

use super::reading::Reading;
use super::stops::Stops;

pub const PID: Key<u32> = Key::new("pid", "The process");
pub const NAME: Key<Text> = Key::new("name", "Its name");

/// Version of [`Frame`]. A field that is added does not change it, another meaning does.
pub const FRAME_FORMAT: u32 = 1;

live! {
    "watch";
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    pub struct Frame {
        /// [`FRAME_FORMAT`].
        frame_format: u32;
        /// When the figures were read, since 1970
        time_unix_ns: i64 => gauge "cowlab_watch_refresh_timestamp" in seconds;
        /// Since the frame before; 0 of the first.
        interval_ns: u64;
        /// What can be seen, with these rights on this kernel.
        sees: Sees;
        /// Sums by name, over processes that ended as well: they only grow.
        groups: Vec<Group>;
        /// The processes that are watched for themselves; their children are within them.
        processes: Vec<Process>;
        /// What watching takes.
        own: Own;
        /// What the machine has left for a fork.
        room: Room;
    }
}

impl Frame {
    /// Leaves out what cannot be seen by `sees`; what can be seen, and was not yet, is 0.
    pub fn only_seen(mut self) -> Frame {
        let (events, stops, counts) = (self.sees.events, self.sees.stops, self.sees.counts);
        let of_groups = self.groups.iter_mut().map(|group| &mut group.totals);
        let of_processes = self.processes.iter_mut().map(|process| &mut process.totals);
        for totals in of_groups.chain(of_processes) {
            for sum in [&mut totals.forks, &mut totals.spawns, &mut totals.execs, &mut totals.exits]
            {
                *sum = Some(sum.unwrap_or(0)).filter(|_| events);
            }
            totals.writes_to_present = totals.writes_to_present.filter(|_| counts);
            let known = totals.stops.take().unwrap_or_default();
            totals.stops = Some(known).filter(|_| stops);
        }
        self.own.lost_events = self.own.lost_events.filter(|_| events);
        self.own.unread_events = self.own.unread_events.filter(|_| events);
        self.own.lost_processes = self.own.lost_processes.filter(|_| events || counts);
        self
    }
}

/// What can be seen. What cannot is `None` in the figures, and why is here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sees {
    /// Forks, exits and execs as they happen.
    pub events: bool,
    pub stops: bool,
    /// Faults by kind, counted in the kernel.
    pub counts: bool,
    pub missing: Vec<String>,
}

live! {
    "watch";
    /// What a process, or all of a name, did since it is watched. Only grows. Forks, spawns, execs and ends are `None`
    /// unless events can be seen.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    pub struct Totals {
        /// Forks that copied page tables
        forks: Option<u64> => counter "cowlab_forks";
        /// Processes made with shared memory: vfork, posix_spawn
        spawns: Option<u64> => counter "cowlab_spawns";
        /// Programs executed
        execs: Option<u64> => counter "cowlab_execs";
        /// Processes that ended
        exits: Option<u64> => counter "cowlab_exits";
        /// Minor page faults
        minor_faults: u64 => counter "cowlab_minor_faults";
        /// Faults of writes to present pages: copies and re-uses (watch --count)
        writes_to_present: Option<u64> => counter "cowlab_write_faults_on_present_pages";
        /// What children had for themselves when they ended or executed something
        copied_bytes: u64 => counter "cowlab_copied" in bytes;
        /// Children that were over before anybody could tell what they had copied
        unseen_copiers: u64;
        /// How long forks stopped it. `None` unless that can be seen.
        stops: Option<Stops>;
    }
}

impl Totals {
    pub(super) fn add(&mut self, of: &Totals) {
        for (sum, more) in [
            (&mut self.forks, of.forks),
            (&mut self.spawns, of.spawns),
            (&mut self.execs, of.execs),
            (&mut self.exits, of.exits),
            (&mut self.writes_to_present, of.writes_to_present),
        ] {
            *sum = more.map(|more| sum.unwrap_or(0) + more).or(*sum);
        }
        self.minor_faults += of.minor_faults;
        self.copied_bytes += of.copied_bytes;
        if let Some(stops) = &of.stops {
            self.stops.get_or_insert_default().add_all(stops);
        }
    }
}

live! {
    "watch";
    /// All processes of one name: sums of what is alive, `None` where none of it can be read.
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    pub struct Group {
        /// The name; `other` beyond as many as are kept apart.
        name: String;
        /// Processes alive, children included
        processes: u64 => gauge "cowlab_processes";
        /// What they did.
        totals: Totals;
        /// VmRSS, summed: shared pages count for each
        rss_bytes: Option<u64> => gauge "cowlab_resident" in bytes;
        /// Page tables, which a fork copies at once
        page_table_bytes: Option<u64> => gauge "cowlab_page_tables" in bytes;
        /// Copied for children that are alive
        epoch_copied_bytes: Option<u64> => gauge "cowlab_epoch_copied" in bytes;
        /// Shared still with children that are alive: could yet be copied
        epoch_shared_bytes: Option<u64> => gauge "cowlab_epoch_shared" in bytes;
        /// The most that a fork of one of them asks the kernel to promise: VmData and VmStk
        fork_commit_bytes: Option<u64> => gauge "cowlab_fork_commit" in bytes;
    }
}

live! {
    "watch";
    /// A process that is watched for itself.
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    pub struct Process {
        /// Its pid.
        pid: u32;
        /// With the pid it names a process for as long as the machine runs.
        start_ticks: u64;
        /// Its name.
        name: String;
        /// Whether it has ended.
        ended: bool;
        /// What it did since it is watched, its children's faults not among it.
        totals: Totals;
        /// Its counters and sizes now.
        now: Reading;
        /// Minor faults a second, since it was last read; beyond 256 processes, they take turns
        minor_faults_per_s: Option<f64> => sample "minor_faults_per_s" in per_s, words "{} minor faults/s";
        /// Writes to pages that were there, a second
        writes_to_present_per_s: Option<f64> => sample "writes_to_present_per_s" in per_s,
            words "{} copies or re-uses/s";
        /// From the newest fork whose child lives, and still shares memory.
        epoch: Option<Epoch>;
        /// The last one that ended.
        last_epoch: Option<Epoch>;
        /// Children alive, all that are known.
        children_alive: u64;
        /// The newest of them.
        children: Vec<ChildRow>;
    }
}

live! {
    "watch";
    /// From a fork until the child ends or executes something.
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    pub struct Epoch {
        /// The child.
        child: u32;
        /// Since when, before the time of the frame; `None` of a child that was there before.
        age_ns: Option<u64>;
        /// The fork's stop.
        stop_ns: Option<u64>;
        /// Copied by either side since its last fork, or new, at the last walk and by the faults since then
        copied_bytes: Option<u64> => sample "epoch_copied_bytes" in bytes;
        /// The part of it that a walk saw.
        walked_bytes: Option<u64>;
        /// Still shared since then, at the last walk less the faults since then
        shared_bytes: Option<u64> => sample "epoch_shared_bytes" in bytes;
        /// How old the last walk is.
        walk_age_ns: Option<u64>;
        /// Faults of the parent since the fork, the same that `copied_bytes` goes on with.
        parent_faults: u64;
        /// Copies by 2 MiB at the last walk.
        regions: Vec<RegionRow>;
        /// Copies by mapping at the last walk, those with most first.
        mappings: Vec<MappingRow>;
    }
}

/// 2 MiB of a child's address space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RegionRow {
    /// Its first address.
    pub start: u64,
    pub private_pages: u32,
    pub shared_pages: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MappingRow {
    /// Its first address.
    pub start: u64,
    /// Behind its last.
    pub end: u64,
    /// `heap`, `stack`, `anonymous`, `data`, `named`.
    pub kind: String,
    pub name: Option<String>,
    pub private_pages: u64,
    pub shared_pages: u64,
}

live! {
    "watch";
    /// A child that is alive.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    pub struct ChildRow {
        /// Its pid.
        pid: u32;
        /// Its name.
        name: String;
        /// How old it is; `None` of one that was there before.
        age_ns: Option<u64> => column "age" in ns;
        /// It executed something, or was made with shared memory: it has no pages to copy.
        apart: bool;
        /// As of an [`Epoch`].
        copied_bytes: Option<u64> => column "copied" in bytes;
        /// As of an [`Epoch`].
        shared_bytes: Option<u64> => column "shared" in bytes;
        /// Resident memory.
        rss_bytes: Option<u64>;
        /// Since it is watched.
        minor_faults: u64;
    }
}

live! {
    "watch";
    /// What watching takes, and what it left out. A count is `None` where nothing of its kind is counted.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
    pub struct Own {
        /// CPU time that watching took
        cpu_ns: u64 => counter "cowlab_watch_cpu" in seconds;
        /// Of one CPU, since the frame before; `None` in the first.
        cpu_share: Option<f64> => words "{} of a CPU" in percent;
        /// Memory that watching takes
        rss_bytes: Option<u64> => gauge "cowlab_watch_resident" in bytes, words "RSS {}" in bytes;
        /// Forks, ends and execs that were not read soon enough
        lost_events: Option<u64> => counter "cowlab_watch_lost_events";
        /// Forks, ends and execs that were counted, and whose processes there was no time to read
        unread_events: Option<u64> => counter "cowlab_watch_unread_events";
        /// Frames that were not printed, as nobody read the ones before
        skipped_frames: Option<u64> => counter "cowlab_watch_skipped_frames";
        /// Processes that there was no room to watch
        lost_processes: Option<u64> => counter "cowlab_watch_lost_processes";
    }
}

pub fn figures() -> Verb {
    let process = rows(Process::FIGURES).chain(rows(Stops::FIGURES)).chain(rows(Reading::FIGURES));
    let group = rows(Totals::FIGURES).chain(rows(Group::FIGURES));
    let whole = rows(Own::FIGURES).chain(rows(Frame::FIGURES)).chain(rows(Room::FIGURES));
    Verb {
        name: "watch",
        about: "A line of `watch --json`, and what `watch --listen` serves by the label `process`, a name",
        parts: &[&PID, &NAME],
        rows: process.chain(rows(Epoch::FIGURES)).chain(group).chain(whole).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as versions wrote it that had 0 for what they did not see.
    fn older(sees: Sees) -> Frame {
        let stops = Some(Stops::default());
        let totals = Totals { forks: Some(0), exits: Some(2), stops, ..Totals::default() };
        Frame {
            sees,
            groups: vec![Group { totals: totals.clone(), ..Group::default() }],
            processes: vec![Process { totals, ..Process::default() }],
            own: Own { lost_events: Some(0), lost_processes: Some(0), ..Own::default() },
            ..Frame::default()
        }
    }

    #[test]
    fn what_cannot_be_seen_is_none_and_never_0() {
        let frame = older(Sees::default()).only_seen();
        assert_eq!(frame.processes[0].totals, Totals::default());
        assert_eq!(frame.groups[0].totals, Totals::default());
        assert_eq!((frame.own.lost_events, frame.own.lost_processes), (None, None));
    }

    #[test]
    fn what_can_be_seen_and_was_not_yet_is_0() {
        let frame = older(Sees { events: true, ..Sees::default() }).only_seen();
        let totals = &frame.processes[0].totals;
        assert_eq!((totals.forks, totals.spawns, totals.execs), (Some(0), Some(0), Some(0)));
        assert_eq!((totals.exits, totals.stops.as_ref()), (Some(2), None));
        assert_eq!((frame.own.lost_events, frame.own.lost_processes), (Some(0), Some(0)));
        let frame = older(Sees { stops: true, ..Sees::default() }).only_seen();
        assert_eq!(frame.groups[0].totals.stops, Some(Stops::default()));
    }
}
