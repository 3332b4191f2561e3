// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forks of the target: whether a child shares its memory now, how often one did, and when the next
//! is to be expected.

use std::collections::BTreeSet;
use std::time::Duration;

use cowlab_machine::process::{Target, children};
use cowlab_machine::{ProcessError, Stat};

/// How often a target is asked for children while there is nothing to do.
pub const LOOK: Duration = Duration::from_millis(50);
/// The longest that the end of a target's children goes unnoticed.
const LONGEST_LOOK: Duration = Duration::from_secs(1);
const REMEMBERED: usize = 8;

/// A child that shares memory: its pid and start time.
type Name = (i32, u64);

/// The children of `target` that share its memory: forked, and have not executed another program.
pub fn sharing(target: &Target) -> Result<BTreeSet<Name>, ProcessError> {
    let children = children::pids(target)?;
    if children.is_empty() {
        return Ok(BTreeSet::new());
    }
    let own = Stat::read(target.pid());
    let alive = children.into_iter().filter_map(|pid| Some((pid, Stat::read(pid)?)));
    let sharing = alive
        .filter(|(_, its)| !its.has_ended() && own.as_ref().is_none_or(|own| may_share(its, own)));
    Ok(sharing.map(|(pid, its)| (pid, its.start_ticks)).collect())
}

/// Faults of the children of `pid` that have ended and were waited for.
pub fn reaped_faults(pid: i32) -> Option<u64> {
    Some(Stat::read(pid)?.reaped_minor_faults)
}

/// Whether a child may share the memory of its parent. It has its parent's stack until it executes
/// something, which gets another place for it.
pub(crate) fn may_share(child: &Stat, parent: &Stat) -> bool {
    child.stack == parent.stack || child.stack == 0
}

/// Between two looks at a target whose children live: a fiftieth of the time that the newest has lived,
/// since who lives long will live for longer. What looking costs may ask for more.
pub fn patience(now: Duration, alive_since: Option<Duration>) -> Duration {
    let alive = now.saturating_sub(alive_since.unwrap_or(now));
    (alive / 50).clamp(LOOK, LONGEST_LOOK)
}

/// What is known of a target's forks. Times since the target was first looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forks {
    /// `None` before the first look.
    alive: Option<BTreeSet<Name>>,
    /// When the last ones were seen, the latest last.
    seen: Vec<Duration>,
    count: u64,
    /// When none was alive any more.
    ended: Option<Duration>,
}

impl Forks {
    /// These share memory now. Whether there are any.
    pub fn observe(&mut self, now: Duration, sharing: BTreeSet<Name>) -> bool {
        // When those that are there at first were forked is not known, nor whether they are workers.
        let new = self.alive.as_ref().map_or(0, |alive| sharing.difference(alive).count()) as u64;
        if new > 0 {
            self.count += new;
            // Those that are seen at once are one event for whoever waits for the next.
            self.seen.push(now);
            if self.seen.len() > REMEMBERED {
                self.seen.remove(0);
            }
        }
        let is_shared = !sharing.is_empty();
        if self.alive() > 0 && !is_shared {
            self.ended = Some(now);
        }
        self.alive = Some(sharing);
        is_shared
    }

    pub fn has_looked(&self) -> bool {
        self.alive.is_some()
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn alive(&self) -> usize {
        self.alive.as_ref().map_or(0, BTreeSet::len)
    }

    /// Since when a child has been alive.
    pub fn alive_since(&self) -> Option<Duration> {
        (self.alive() > 0).then(|| self.seen.last().copied().unwrap_or_default())
    }

    /// When the last child ended.
    pub fn ended(&self) -> Option<Duration> {
        self.ended
    }

    /// How long it is until the next fork: by the shortest of the last intervals, because a fork
    /// that comes earlier than expected finds less done. `None` before the second fork.
    pub fn until_next(&self, now: Duration) -> Option<Duration> {
        let interval = self.seen.windows(2).map(|pair| pair[1] - pair[0]).min()?;
        Some((*self.seen.last()? + interval).saturating_sub(now))
    }

    /// The shortest of the last intervals.
    pub fn interval(&self) -> Option<Duration> {
        self.seen.windows(2).map(|pair| pair[1] - pair[0]).min()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn forks_are_counted_and_the_next_is_expected() {
        let at = Duration::from_secs;
        let mut forks = Forks::default();
        assert!(!forks.observe(at(0), BTreeSet::new()));
        assert!(forks.observe(at(10), [(5, 1)].into()));
        assert_eq!((forks.count(), forks.until_next(at(11))), (1, None));
        assert_eq!(forks.alive_since(), Some(at(10)));
        assert!(!forks.observe(at(20), BTreeSet::new()));
        assert_eq!(forks.ended(), Some(at(20)));
        // Another with the same number is another.
        assert!(forks.observe(at(70), [(5, 2)].into()));
        assert_eq!((forks.count(), forks.until_next(at(80))), (2, Some(at(50))));
        assert_eq!(forks.until_next(at(500)), Some(at(0)));
        forks.observe(at(75), BTreeSet::new());
        forks.observe(at(90), [(6, 3), (7, 3)].into());
        assert_eq!((forks.count(), forks.interval()), (4, Some(at(20))));
    }

    #[test]
    fn children_of_before_are_no_forks() {
        let at = Duration::from_secs;
        let mut forks = Forks::default();
        assert!(forks.observe(at(1), [(5, 1), (6, 1)].into()));
        assert_eq!((forks.count(), forks.alive(), forks.alive_since()), (0, 2, Some(at(0))));
        forks.observe(at(2), [(5, 1), (6, 1), (7, 1)].into());
        assert_eq!((forks.count(), forks.alive()), (1, 3));
    }

    #[test]
    fn where_a_stack_may_not_be_seen_it_may_be_the_parents() {
        let with = |stack| Stat { stack, ..Stat::default() };
        let parent = with(28);
        assert!(may_share(&with(28), &parent) && may_share(&with(0), &parent));
        assert!(!may_share(&with(5), &parent));
    }

    #[test]
    fn who_executes_another_program_shares_nothing() {
        // One subshell that stays a fork, and one that becomes another program.
        let mut shell = Command::new("bash")
            .args(["-c", "(read -r _ < <(sleep 60); :) & sleep 60 & echo ready; wait"])
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let target = Target::open(shell.id() as i32).unwrap();
        let mut counts = (0, 0);
        for _ in 0..200 {
            counts = (children::children(&target).unwrap().len(), sharing(&target).unwrap().len());
            if counts == (2, 1) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(counts, (2, 1));
        let group = rustix::process::Pid::from_child(&shell);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn long_lived_children_are_looked_at_less_often() {
        let s = Duration::from_secs;
        assert_eq!(patience(s(100), Some(s(100))), LOOK);
        assert_eq!(patience(s(110), Some(s(100))), Duration::from_millis(200));
        assert_eq!(patience(s(9000), Some(s(100))), LONGEST_LOOK);
        assert_eq!(patience(s(9000), None), LOOK);
    }
}
