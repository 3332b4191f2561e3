// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The accounts: what each watched process did and has. Pure; whoever reads the machine tells it.

mod account;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use super::frame::{Frame, Group, Own, Process, Sees, Totals};
use super::reading::Reading;
use super::sample::Sample;
use crate::bpf::Counts;
use account::{Account, Share};
use cowlab_machine::{Room, Stat};

/// Names that are kept apart; the rest are `other`. A label set must not grow with the machine.
const GROUPS: usize = 100;
/// Names that make room at a time, once there is none left.
const AGED_OUT: usize = 10;
const OTHER: &str = "other";

/// What is known of every process that is watched.
#[derive(Debug, Default)]
pub struct Book {
    page_bytes: u64,
    /// Whether a process that executes something is one by itself from then on, as where everything
    /// is watched; else it stays its parent's child.
    exec_makes_own: bool,
    accounts: BTreeMap<u32, Account>,
    /// Those that are read only for a worker of theirs, which is watched for itself.
    hidden: BTreeSet<u32>,
    /// The accounts that have that parent: there may be thousands.
    children: BTreeMap<u32, BTreeSet<u32>>,
    groups: BTreeMap<String, Sum>,
    /// How often a sum was added to.
    uses: u64,
}

/// What all of a name did.
#[derive(Debug, Default)]
struct Sum {
    totals: Totals,
    /// The number of its last use.
    used: u64,
}

impl Book {
    pub fn new(page_bytes: u64, exec_makes_own: bool) -> Book {
        Book { page_bytes, exec_makes_own, ..Book::default() }
    }

    /// Whether that process is in it and has not ended.
    pub fn knows(&self, pid: u32) -> bool {
        self.accounts.get(&pid).is_some_and(|account| !account.ended)
    }

    /// The watched process whose child it is.
    pub fn parent(&self, pid: u32) -> Option<u32> {
        self.accounts.get(&pid)?.parent
    }

    /// The name of one that has not ended.
    pub fn name(&self, pid: u32) -> Option<&str> {
        self.accounts.get(&pid).filter(|account| !account.ended).map(|it| it.name.as_str())
    }

    pub fn start_ticks(&self, pid: u32) -> Option<u64> {
        self.accounts.get(&pid).filter(|account| !account.ended)?.start_ticks
    }

    /// Processes that are alive: those watched for themselves, and children.
    pub fn alive(&self, children: bool) -> Vec<u32> {
        let wanted = |account: &&Account| !account.ended && account.parent.is_some() == children;
        let mut found: Vec<&Account> = self.accounts.values().filter(wanted).collect();
        // The newest first: they are the ones that still copy.
        found.sort_by_key(|account| std::cmp::Reverse((account.born_ns, account.start_ticks)));
        found.iter().map(|account| account.pid).collect()
    }

    /// Whether it is shown for itself: what was named, and where all is watched what nobody forked.
    pub fn is_shown(&self, pid: u32) -> bool {
        self.accounts.get(&pid).is_some_and(|account| match account.parent {
            None => !self.hidden.contains(&pid),
            Some(parent) => self.hidden.contains(&parent),
        })
    }

    /// Whether any child shares its parent's memory.
    pub fn has_sharing(&self) -> bool {
        self.accounts.values().any(|account| !account.ended && account.share.is_some())
    }

    /// Children whose memory is shared with their parent's, the newest of each parent first, then
    /// those whose last walk is oldest.
    pub fn sharing(&self) -> Vec<u32> {
        let mut found: Vec<&Account> =
            self.accounts.values().filter(|a| !a.ended && a.share.is_some()).collect();
        // Once for all of them: there may be thousands.
        let mut newest: BTreeMap<Option<u32>, &Account> = BTreeMap::new();
        for account in &found {
            let first = newest.entry(account.parent).or_insert(account);
            if (account.born_ns, account.start_ticks) >= (first.born_ns, first.start_ticks) {
                *first = account;
            }
        }
        found.sort_by_key(|account| {
            let is_newest = newest.get(&account.parent).is_some_and(|it| it.pid == account.pid);
            (!is_newest, account.share.as_ref().map_or(0, |share| share.looked_ns))
        });
        found.iter().map(|account| account.pid).collect()
    }

    /// A process that is watched from now on: for itself, or as a child of one that is.
    pub fn add(&mut self, pid: u32, stat: &Stat, now: Reading, parent: Option<u32>) {
        let inherited = parent.and_then(|parent| self.accounts.get(&parent));
        let group = inherited.map_or_else(|| stat.name.clone(), |parent| parent.group.clone());
        let mut account = Account::new(pid, stat.name.clone(), group, parent, now);
        account.start_ticks = Some(stat.start_ticks);
        self.group(&account.group.clone());
        self.insert(account);
    }

    fn insert(&mut self, account: Account) {
        let (pid, parent) = (account.pid, account.parent);
        if let Some(before) = self.accounts.insert(pid, account) {
            self.unlink(pid, before.parent);
        }
        if let Some(parent) = parent {
            self.children.entry(parent).or_default().insert(pid);
        }
    }

    /// It is that parent's child no more.
    fn unlink(&mut self, pid: u32, parent: Option<u32>) {
        let Some(parent) = parent else { return };
        let Some(children) = self.children.get_mut(&parent) else { return };
        children.remove(&pid);
        if children.is_empty() {
            self.children.remove(&parent);
        }
    }

    /// The children that have not ended.
    fn children(&self, parent: u32) -> impl Iterator<Item = &Account> {
        let pids = self.children.get(&parent).into_iter().flatten();
        pids.filter_map(|pid| self.accounts.get(pid)).filter(|account| !account.ended)
    }

    /// A child that was there before: it shares its parent's memory as far as can be told.
    pub fn add_sharing(&mut self, pid: u32, stat: &Stat, now: Reading, parent: u32) {
        self.add(pid, stat, now, Some(parent));
        self.share(pid, parent, None);
    }

    /// A worker that is watched without its parent, which is read for what it copies.
    pub fn add_worker(&mut self, worker: (u32, &Stat, Reading), parent: (u32, &Stat, Reading)) {
        self.hidden.insert(parent.0);
        self.add(parent.0, parent.1, parent.2, None);
        self.add_sharing(worker.0, worker.1, worker.2, parent.0);
    }

    fn share(&mut self, pid: u32, parent: u32, stop_ns: Option<u64>) {
        let Some(at_fork) = self.accounts.get(&parent).map(|parent| parent.now.clone()) else {
            return;
        };
        if let Some(child) = self.accounts.get_mut(&pid) {
            let own = child.now.clone();
            child.share = Some(Share {
                stop_ns,
                parent_at_fork: at_fork,
                own_at_fork: own,
                walk: None,
                looked_ns: 0,
            });
        }
    }

    /// What a process has now. `rates_ns`: when, where rates are wanted: since it was last read so.
    pub fn read(&mut self, pid: u32, now: Reading, rates_ns: Option<u64>) {
        let Some(account) = self.accounts.get_mut(&pid) else { return };
        let (faults, writes) = account.read(now, rates_ns);
        if self.hidden.contains(&pid) {
            return;
        }
        let group = account.group.clone();
        let sum = self.group(&group);
        sum.minor_faults += faults;
        if let Some(writes) = writes {
            *sum.writes_to_present.get_or_insert(0) += writes;
        }
    }

    /// A process was reaped before it could be read: its last reading, with what BPF counted since.
    pub fn counted(&mut self, pid: u32, counts: Counts) {
        let Some(account) = self.accounts.get(&pid) else { return };
        let now = Reading { counts: Some(counts), ..account.now.clone() };
        self.read(pid, now, None);
    }

    /// A walk through a child's page tables; it and its parent were read just before.
    pub fn walked(&mut self, pid: u32, sample: Sample, time_ns: u64) {
        let Some(parent) = self.accounts.get(&pid).and_then(|account| account.parent) else {
            return;
        };
        let Some(parent_now) = self.accounts.get(&parent).map(|account| account.now.clone()) else {
            return;
        };
        if let Some(account) = self.accounts.get_mut(&pid) {
            account.walked(sample, time_ns, parent_now);
        }
    }

    /// It is the child's turn to be walked, and its counters have been read: whether that would tell
    /// more than the last walk did.
    pub fn has_news(&mut self, pid: u32, time_ns: u64) -> bool {
        let parent = self.accounts.get(&pid).and_then(|account| account.parent);
        let parent = parent.and_then(|parent| self.accounts.get(&parent));
        let Some(parent_now) = parent.map(|account| account.now.clone()) else { return true };
        let Some(account) = self.accounts.get_mut(&pid) else { return true };
        if let Some(share) = &mut account.share {
            share.looked_ns = time_ns;
        }
        account.has_news(&parent_now)
    }

    /// A process has ended. Its account stays until the next frame if it is watched for itself.
    pub fn ended(&mut self, pid: u32, time_ns: u64) {
        self.close_epoch(pid, time_ns);
        let Some(account) = self.accounts.get_mut(&pid).filter(|account| !account.ended) else {
            return;
        };
        account.ended = true;
        let (group, parent) = (account.group.clone(), account.parent);
        *self.group(&group).exits.get_or_insert(0) += 1;
        if let Some(parent) = parent {
            if let Some(parent) = self.accounts.get_mut(&parent) {
                *parent.totals.exits.get_or_insert(0) += 1;
            }
            self.accounts.remove(&pid);
        }
        self.unlink(pid, parent);
        // Nobody reads a parent that is gone: its children are on their own.
        for child in self.children.remove(&pid).unwrap_or_default() {
            if let Some(child) = self.accounts.get_mut(&child) {
                child.parent = None;
                child.share = None;
            }
        }
    }

    /// Forgets those watched for themselves that have ended; who they were.
    pub fn drop_ended(&mut self) -> Vec<u32> {
        let gone: Vec<u32> =
            self.accounts.values().filter(|account| account.ended).map(|a| a.pid).collect();
        self.accounts.retain(|_, account| !account.ended);
        self.age_names();
        gone
    }

    /// Makes room for new names: those of which nothing is alive, and that were idle for longest, are
    /// `other` from now on. What they did is added to that, so that all sums together never fall.
    fn age_names(&mut self) {
        if self.groups.len() < GROUPS {
            return;
        }
        let alive: BTreeSet<&str> = self.accounts.values().map(|it| it.group.as_str()).collect();
        let is_idle = |name: &str| name != OTHER && !alive.contains(name);
        let mut idle: Vec<(u64, String)> = self
            .groups
            .iter()
            .filter(|(name, _)| is_idle(name))
            .map(|(name, sum)| (sum.used, name.clone()))
            .collect();
        idle.sort_unstable();
        for (_, name) in idle.into_iter().take(AGED_OUT) {
            if let Some(sum) = self.groups.remove(&name) {
                self.groups.entry(OTHER.to_owned()).or_default().totals.add(&sum.totals);
            }
        }
    }

    /// Ends what a child shares with its parent, and keeps what it came to.
    fn close_epoch(&mut self, pid: u32, time_ns: u64) {
        let Some(epoch) = self.epoch_of(pid, time_ns) else { return };
        let Some(child) = self.accounts.get_mut(&pid) else { return };
        child.share = None;
        let (group, parent) = (child.group.clone(), child.parent);
        let copied = epoch.copied_bytes;
        let sum_up = |totals: &mut Totals| {
            totals.copied_bytes += copied.unwrap_or(0);
            totals.unseen_copiers += u64::from(copied.is_none());
        };
        sum_up(self.group(&group));
        if let Some(parent) = parent.and_then(|parent| self.accounts.get_mut(&parent)) {
            sum_up(&mut parent.totals);
            parent.last_epoch = Some(epoch);
        }
    }

    /// The sums of a name, which is `other` where there are too many.
    fn group(&mut self, name: &str) -> &mut Totals {
        let full = self.groups.len() >= GROUPS && !self.groups.contains_key(name);
        self.uses += 1;
        let sum = self.groups.entry(if full { OTHER } else { name }.to_owned()).or_default();
        sum.used = self.uses;
        &mut sum.totals
    }

    fn newest_sharing(&self, parent: u32) -> Option<u32> {
        let all = self.sharing_with(parent);
        all.max_by_key(|account| (account.born_ns, account.start_ticks)).map(|a| a.pid)
    }

    /// The children that share memory with it.
    fn sharing_with(&self, parent: u32) -> impl Iterator<Item = &Account> {
        self.children(parent).filter(|child| child.share.is_some())
    }

    pub fn frame(
        &self,
        time_ns: u64,
        time_unix_ns: i64,
        interval_ns: u64,
        sees: Sees,
        own: Own,
        room: Room,
    ) -> Frame {
        let processes = self
            .accounts
            .values()
            .filter(|account| self.is_shown(account.pid))
            .map(|account| self.process(account, time_ns))
            .collect::<Vec<Process>>();
        let frame = Frame {
            frame_format: super::FRAME_FORMAT,
            time_unix_ns,
            interval_ns,
            sees,
            groups: self.group_rows(time_ns),
            processes,
            own,
            room,
        };
        frame.only_seen()
    }

    fn group_rows(&self, time_ns: u64) -> Vec<Group> {
        let mut rows: BTreeMap<&str, Group> = self
            .groups
            .iter()
            .map(|(name, sum)| {
                let totals = sum.totals.clone();
                (name.as_str(), Group { name: name.clone(), totals, ..Group::default() })
            })
            .collect();
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum.get_or_insert(0) += more;
            }
        };
        let counts = |account: &&Account| !account.ended && !self.hidden.contains(&account.pid);
        for account in self.accounts.values().filter(counts) {
            let name = account.group.as_str();
            let name = if rows.contains_key(name) { name } else { OTHER };
            let Some(row) = rows.get_mut(name) else { continue };
            row.processes += 1;
            add(&mut row.rss_bytes, account.now.rss_bytes);
            add(&mut row.page_table_bytes, account.now.page_table_bytes);
            row.fork_commit_bytes = row.fork_commit_bytes.max(account.now.commit_bytes);
            if let Some(epoch) = self.epoch_of(account.pid, time_ns) {
                add(&mut row.epoch_copied_bytes, epoch.copied_bytes);
                add(&mut row.epoch_shared_bytes, epoch.shared_bytes);
            }
        }
        rows.into_values().collect()
    }
}

#[cfg(test)]
mod tests;
