// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known at one refresh: the format of `--json`, recordings and `--replay`, and what views
//! and metrics are made of. docs/reference/watch.md describes it.

use anyhow::{Context, Result, bail};
use cowlab_machine::Room;
use cowlab_schema::Command;
use cowlab_store::FORMAT;
use serde::{Deserialize, Serialize};

use super::reading::Reading;
use super::stops::Stops;

/// Version of [`Frame`]. A field that is added does not change it, another meaning does.
pub const FRAME_FORMAT: u32 = 1;

/// One refresh.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// [`FRAME_FORMAT`].
    pub frame_format: u32,
    /// When, in ns since 1970 (UTC).
    pub time_unix_ns: i64,
    /// Since the frame before; 0 of the first.
    pub interval_ns: u64,
    /// What can be seen, with these rights on this kernel.
    pub sees: Sees,
    /// Sums by name, over processes that ended as well: they only grow.
    pub groups: Vec<Group>,
    /// The processes that are watched for themselves; their children are within them.
    pub processes: Vec<Process>,
    /// What watching takes.
    pub own: Own,
    /// What the machine has left for a fork.
    #[serde(default)]
    pub room: Room,
}

#[derive(Deserialize)]
struct Line {
    format: u32,
    summary: Frame,
}

impl Frame {
    /// Reads a line of a recording. Older versions wrote 0 for what they did not see.
    pub fn parse(text: &str) -> Result<Frame> {
        let line: Line = serde_json::from_str(text)
            .with_context(|| format!("not a line of `{}`", Command::WatchJson))?;
        let frame_format = line.summary.frame_format;
        if line.format != FORMAT || frame_format != FRAME_FORMAT {
            bail!("format {}.{frame_format} is another version's", line.format);
        }
        Ok(line.summary.only_seen())
    }

    /// Leaves out what cannot be seen by `sees`, which recordings of older versions have as 0; what
    /// can be seen, and was not yet, is 0.
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sees {
    /// Forks, exits and execs as they happen.
    pub events: bool,
    /// The stop of a fork.
    pub stops: bool,
    /// Faults by kind, counted in the kernel.
    pub counts: bool,
    /// What is missing, one sentence each.
    pub missing: Vec<String>,
}

/// What a process, or all of a name, did since it is watched. Only grows. Forks, spawns, execs and
/// ends are `None` unless events can be seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Forks that copied memory.
    pub forks: Option<u64>,
    /// New processes that share memory until they execute something: vfork, posix_spawn.
    pub spawns: Option<u64>,
    /// Execs.
    pub execs: Option<u64>,
    /// Ends.
    pub exits: Option<u64>,
    /// Minor faults.
    pub minor_faults: u64,
    /// Writes to present pages: copies and re-uses. `None` unless they are counted.
    pub writes_to_present: Option<u64>,
    /// What children had for themselves when they ended, or executed something.
    pub copied_bytes: u64,
    /// Children of which that is not known: they were over before anybody looked at them.
    #[serde(default)]
    pub unseen_copiers: u64,
    /// How long forks stopped it. `None` unless that can be seen.
    pub stops: Option<Stops>,
}

impl Totals {
    /// Adds another's.
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

/// All processes of one name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The name; `other` beyond as many as are kept apart.
    pub name: String,
    /// Alive now, children included.
    pub processes: u64,
    /// What they did.
    pub totals: Totals,
    /// Sums of what is alive; `None` where none of it can be read.
    pub rss_bytes: Option<u64>,
    /// VmPTE.
    pub page_table_bytes: Option<u64>,
    /// Copied in the epochs that last, and could still be.
    pub epoch_copied_bytes: Option<u64>,
    /// See above.
    pub epoch_shared_bytes: Option<u64>,
    /// The most that a fork of one of them asks the kernel to promise.
    #[serde(default)]
    pub fork_commit_bytes: Option<u64>,
}

/// A process that is watched for itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// With the pid it names a process for as long as the machine runs.
    pub start_ticks: u64,
    /// Its name.
    pub name: String,
    /// Whether it has ended.
    pub ended: bool,
    /// What it did since it is watched, its children's faults not among it.
    pub totals: Totals,
    /// Its counters and sizes now.
    pub now: Reading,
    /// Since it was read for a frame before this one, the last one unless very many are watched;
    /// `None` in its first.
    pub minor_faults_per_s: Option<f64>,
    /// Since then, too.
    pub writes_to_present_per_s: Option<f64>,
    /// From the newest fork whose child lives, and still shares memory.
    pub epoch: Option<Epoch>,
    /// The last one that ended.
    pub last_epoch: Option<Epoch>,
    /// Children alive, all that are known.
    pub children_alive: u64,
    /// The newest of them.
    pub children: Vec<ChildRow>,
}

/// From a fork until the child ends or executes something.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// The child.
    pub child: u32,
    /// Since when, before the time of the frame; `None` of a child that was there before.
    pub age_ns: Option<u64>,
    /// The fork's stop.
    pub stop_ns: Option<u64>,
    /// What the child has for itself: copied by either side since the fork, or new. The last walk,
    /// and the faults since then; `None` before the first of a child that was there before.
    pub copied_bytes: Option<u64>,
    /// The part of it that a walk saw.
    pub walked_bytes: Option<u64>,
    /// What is shared still, at the last walk less the faults since then.
    pub shared_bytes: Option<u64>,
    /// How old the last walk is.
    pub walk_age_ns: Option<u64>,
    /// Faults of the parent since the fork, the same that `copied_bytes` goes on with.
    pub parent_faults: u64,
    /// Copies by 2 MiB at the last walk.
    pub regions: Vec<RegionRow>,
    /// Copies by mapping at the last walk, those with most first.
    pub mappings: Vec<MappingRow>,
}

/// 2 MiB of a child's address space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionRow {
    /// Its first address.
    pub start: u64,
    /// Pages for itself.
    pub private_pages: u32,
    /// Pages that it shares.
    pub shared_pages: u32,
}

/// A mapping of a child.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingRow {
    /// Its first address.
    pub start: u64,
    /// Behind its last.
    pub end: u64,
    /// `heap`, `stack`, `anonymous`, `data`, `named`.
    pub kind: String,
    /// Its name in maps.
    pub name: Option<String>,
    /// Pages for itself.
    pub private_pages: u64,
    /// Pages that it shares.
    pub shared_pages: u64,
}

/// A child that is alive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRow {
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// How old it is; `None` of one that was there before.
    pub age_ns: Option<u64>,
    /// It executed something, or was made with shared memory: it has no pages to copy.
    pub apart: bool,
    /// As of an [`Epoch`].
    pub copied_bytes: Option<u64>,
    /// As of an [`Epoch`].
    pub shared_bytes: Option<u64>,
    /// VmRSS.
    pub rss_bytes: Option<u64>,
    /// Since it is watched.
    pub minor_faults: u64,
}

/// What watching takes, and what it did not see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// CPU time since the start.
    pub cpu_ns: u64,
    /// Of one CPU, since the frame before; `None` in the first.
    pub cpu_share: Option<f64>,
    /// VmRSS.
    pub rss_bytes: Option<u64>,
    /// Events that did not fit; `None` where none are told.
    pub lost_events: Option<u64>,
    /// Events that were booked by what they say alone, as reading the processes would have taken
    /// more than watching may; `None` where none are told.
    #[serde(default)]
    pub unread_events: Option<u64>,
    /// Frames that were not printed, as nobody read the ones before; `None` where none are printed.
    #[serde(default)]
    pub skipped_frames: Option<u64>,
    /// Processes that there was no room for; `None` where no such room is needed.
    pub lost_processes: Option<u64>,
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
