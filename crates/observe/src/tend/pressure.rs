// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether there is memory to spare: facts, and the decision.

use std::path::PathBuf;
use std::time::Duration;

use cowlab_machine::cgroup::Cgroup;
use cowlab_machine::{Root, memory};
use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub total_bytes: Option<u64>,
    pub available_bytes: Option<u64>,
    /// The limit of a control group of the target that leaves least: it, and what it leaves.
    pub group: Option<(u64, u64)>,
    /// Time that somebody waited for memory, since the machine started: the machine's, and the
    /// target's control group's (pressure stall information, "some").
    pub stalled: Vec<Duration>,
}

/// How often memory is looked at between collapses.
const LOOK: Duration = Duration::from_millis(200);
/// After so long without a look, how much was waited since says nothing of now.
const STALE: Duration = Duration::from_secs(5);

/// Where the pressure on the target is told, and what was read there last.
#[derive(Debug, Clone)]
pub struct Gauges {
    files: Vec<PathBuf>,
    last: Option<(Duration, Memory)>,
    /// How long this process itself may have waited for memory since.
    own: Duration,
}

impl Gauges {
    /// Those of the machine and of the groups that have one (version 2).
    pub fn of(cgroup: &Cgroup) -> Gauges {
        let groups = cgroup.memory_max.iter().chain(&cgroup.memory_high);
        let folders = groups.filter_map(|bound| bound.file.rsplit_once('/'));
        let mut files: Vec<PathBuf> =
            folders.map(|(folder, _)| PathBuf::from(folder).join("memory.pressure")).collect();
        files.push("/proc/pressure/memory".into());
        files.sort();
        files.dedup();
        files.retain(|file| file.exists());
        Gauges { files, last: None, own: Duration::ZERO }
    }

    /// This process was busy with memory for so long: what it waited for meanwhile is its own doing.
    pub fn waited_ourselves(&mut self, at_most: Duration) {
        self.own += at_most;
    }

    /// Whether there is memory to spare for process `pid`; looks no more often than is of use. `now`
    /// is the time since any fixed moment. An error says what is tight.
    pub fn check(&mut self, now: Duration, pid: i32) -> Result<(), Tight> {
        if self.last.as_ref().is_some_and(|(at, _)| now < *at + LOOK) {
            return Ok(());
        }
        let root = Root::default();
        let machine = memory::Memory::read(&root);
        let group = Cgroup::read(&root, pid);
        let bounds = [group.tightest_max(), group.tightest_high()].into_iter().flatten();
        let tightest = bounds.min_by_key(|bound| bound.free_bytes());
        let memory = Memory {
            total_bytes: machine.as_ref().map(|m| m.total_bytes),
            available_bytes: machine.as_ref().and_then(|m| m.available_bytes),
            group: tightest.map(|bound| (bound.limit_bytes, bound.free_bytes())),
            stalled: self.read(),
        };
        let before = self.last.replace((now, memory.clone()));
        let own = std::mem::take(&mut self.own);
        let before = before.filter(|(at, _)| now < *at + STALE);
        let since = before.as_ref().map_or(Duration::ZERO, |(at, _)| now - *at);
        spare(&memory, before.as_ref().map(|(_, before)| before), since, own)
    }

    /// MemAvailable, as it was at the last look.
    pub fn available_bytes(&self) -> Option<u64> {
        self.last.as_ref()?.1.available_bytes
    }

    /// Reads them; a kernel without pressure stall information has none.
    fn read(&self) -> Vec<Duration> {
        let texts = self.files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
        texts.filter_map(|text| some_total(&text)).collect()
    }
}

/// `total` of the line `some`, in µs.
fn some_total(text: &str) -> Option<Duration> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tight {
    /// The machine has little memory left.
    Machine,
    /// A limit of the target's control group is near.
    Group,
    Waiting,
}

impl Tight {
    pub fn words(self) -> &'static str {
        match self {
            Tight::Machine => "the machine has little memory left",
            Tight::Group => "the limit of the target's control group is near",
            Tight::Waiting => "somebody on this machine or in the target's group waits for memory",
        }
    }
}

/// The machine's memory that is left alone: this share, and so many bytes at least.
const SPARE_SHARE: f64 = 0.02;
const SPARE_BYTES: u64 = 64 << 20;
const GROUP_SHARE: f64 = 0.02;
const GROUP_BYTES: u64 = 8 << 20;
/// The share of the time that somebody may wait for memory.
const WAITING_SHARE: f64 = 0.01;

/// Whether there is memory to spare, `since` after `before` was read, of which this process may have
/// waited `own`. An error says what is tight.
pub fn spare(
    now: &Memory,
    before: Option<&Memory>,
    since: Duration,
    own: Duration,
) -> Result<(), Tight> {
    if let (Some(total), Some(available)) = (now.total_bytes, now.available_bytes)
        && available < SPARE_BYTES.max((total as f64 * SPARE_SHARE) as u64)
    {
        return Err(Tight::Machine);
    }
    if let Some((limit, free)) = now.group
        && free < GROUP_BYTES.max((limit as f64 * GROUP_SHARE) as u64)
    {
        return Err(Tight::Group);
    }
    let waited = before.is_some_and(|before| {
        before.stalled.iter().zip(&now.stalled).any(|(before, now)| {
            let others = now.saturating_sub(*before).saturating_sub(own);
            others.as_secs_f64() > since.as_secs_f64() * WAITING_SHARE
        })
    });
    if waited { Err(Tight::Waiting) } else { Ok(()) }
}

/// Whether a limit of the control groups of `pid`, or of our own, leaves less than two huge pages.
pub(crate) fn is_group_full(pid: i32, huge_page_bytes: u64) -> bool {
    let root = Root::default();
    [pid, std::process::id() as i32].into_iter().any(|pid| {
        let group = Cgroup::read(&root, pid);
        let bounds = [group.tightest_max(), group.tightest_high()].into_iter().flatten();
        bounds.map(|bound| bound.free_bytes()).any(|free| free < 2 * huge_page_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn memory(available: u64, group: Option<(u64, u64)>, stalled_ms: &[u64]) -> Memory {
        Memory {
            total_bytes: Some(16 * GIB),
            available_bytes: Some(available),
            group,
            stalled: stalled_ms.iter().copied().map(Duration::from_millis).collect(),
        }
    }

    #[test]
    fn each_bound_stops_it_and_absent_facts_do_not() {
        let second = Duration::from_secs(1);
        let before = memory(8 * GIB, None, &[100, 50]);
        for (now, expected) in [
            (memory(8 * GIB, None, &[100, 50]), Ok(())),
            (memory(300 << 20, None, &[100, 50]), Err(Tight::Machine)),
            (memory(8 * GIB, Some((GIB, 30 << 20)), &[100, 50]), Ok(())),
            (memory(8 * GIB, Some((GIB, 20 << 20)), &[100, 50]), Err(Tight::Group)),
            (memory(8 * GIB, Some((64 << 20, 7 << 20)), &[100, 50]), Err(Tight::Group)),
            (memory(8 * GIB, None, &[109, 59]), Ok(())),
            (memory(8 * GIB, None, &[100, 61]), Err(Tight::Waiting)),
            (Memory::default(), Ok(())),
        ] {
            let found = spare(&now, Some(&before), second, Duration::ZERO);
            assert_eq!(found, expected, "{now:?}");
        }
        // Compaction for a huge page of ours is no reason to rest.
        let waited = memory(8 * GIB, None, &[100, 65]);
        let own = Duration::from_millis;
        assert_eq!(spare(&waited, Some(&before), second, own(5)), Ok(()));
        assert_eq!(spare(&waited, Some(&before), second, own(4)), Err(Tight::Waiting));
        // Without a past nothing is known of waiting.
        let nothing = Duration::ZERO;
        assert_eq!(spare(&memory(8 * GIB, None, &[9999]), None, second, nothing), Ok(()));
    }

    #[test]
    fn the_line_of_whoever_waited_is_read() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\nfull avg10=0 total=1\n";
        assert_eq!(some_total(text), Some(Duration::from_micros(12345)));
        assert_eq!(some_total("full avg10=0 total=1\n"), None);
        assert_eq!(some_total(""), None);
    }
}
