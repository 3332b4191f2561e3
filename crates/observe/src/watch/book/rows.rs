// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What events and readings become: entries, and rows of a frame.

use super::super::frame::{ChildRow, Epoch, Process};
use super::super::reading::Reading;
use super::{Account, Book};
use crate::bpf::{Event, ForkEvent};
use cowlab_machine::Stat;

/// Children in a frame, the newest.
const CHILDREN: usize = 50;

fn add_fork(totals: &mut super::Totals, fork: &ForkEvent) {
    let made = match fork.shares_memory {
        true => &mut totals.spawns,
        false => &mut totals.forks,
    };
    *made.get_or_insert(0) += 1;
    if let Some(stop_ns) = fork.stop_ns {
        totals.stops.get_or_insert_default().add(stop_ns);
    }
}

impl Book {
    /// A watched process forked. `child`: who the child is, unless it was reaped already, and what
    /// it has.
    pub fn forked(&mut self, event: &Event, fork: &ForkEvent, child: (Option<Stat>, Reading)) {
        let Some(parent) = self.accounts.get_mut(&event.tgid) else { return };
        let (name, group) = (parent.name.clone(), parent.group.clone());
        add_fork(&mut parent.totals, fork);
        add_fork(self.group(&group), fork);
        let Some(pid) = fork.child_tgid else { return };
        // Grandchildren stand beside their parents, so that a frame is no tree.
        let (stat, reading) = child;
        let mut account = Account::new(pid, name, group, Some(event.tgid), reading);
        account.start_ticks = stat.map(|stat| stat.start_ticks);
        account.born_ns = event.time_ns;
        // Its faults before it was read are its own as well.
        let faults = account.now.minor_faults;
        let writes = account.now.counts.map(|counts| counts.writes_to_present);
        account.totals.minor_faults = faults;
        account.totals.writes_to_present = writes;
        let sum = self.group(&account.group.clone());
        sum.minor_faults += faults;
        if let Some(writes) = writes {
            *sum.writes_to_present.get_or_insert(0) += writes;
        }
        self.insert(account);
        if !fork.shares_memory {
            self.share(pid, event.tgid, fork.stop_ns);
            if let Some(share) = self.accounts.get_mut(&pid).and_then(|child| child.share.as_mut())
            {
                // From the fork on, not from when it was read.
                share.own_at_fork.minor_faults = 0;
                share.own_at_fork.counts = share.own_at_fork.counts.map(|_| Default::default());
            }
        }
    }

    /// A process forked that ended before it could be read: its name counts, which the event has.
    pub fn forked_unseen(&mut self, event: &Event, fork: &ForkEvent) {
        add_fork(self.group(&event.comm), fork);
    }

    /// A watched process runs another program: it shares nothing any more.
    pub fn executed(&mut self, event: &Event) {
        self.close_epoch(event.tgid, event.time_ns);
        let Some(account) = self.accounts.get_mut(&event.tgid) else { return };
        account.name.clone_from(&event.comm);
        *account.totals.execs.get_or_insert(0) += 1;
        let mut parent = None;
        if self.exec_makes_own {
            parent = account.parent.take();
            account.group.clone_from(&event.comm);
        }
        let group = account.group.clone();
        self.unlink(event.tgid, parent);
        *self.group(&group).execs.get_or_insert(0) += 1;
    }

    pub(super) fn epoch_of(&self, pid: u32, time_ns: u64) -> Option<Epoch> {
        let child = self.accounts.get(&pid).filter(|child| !child.ended)?;
        let parent = self.accounts.get(&child.parent?)?;
        child.share.as_ref()?;
        // Of a worker that is watched alone nobody knows whether it has siblings.
        let is_only =
            !self.hidden.contains(&parent.pid) && self.sharing_with(parent.pid).nth(1).is_none();
        child.epoch(&parent.now, is_only, self.page_bytes, time_ns)
    }

    pub(super) fn process(&self, account: &Account, time_ns: u64) -> Process {
        let mut children: Vec<&Account> = self.children(account.pid).collect();
        children.sort_by_key(|child| std::cmp::Reverse((child.born_ns, child.start_ticks)));
        let of_epoch = match account.parent {
            Some(_) => Some(account.pid),
            None => self.newest_sharing(account.pid),
        };
        let epoch = of_epoch.and_then(|pid| self.epoch_of(pid, time_ns));
        let row = |child: &&Account| {
            let epoch = self.epoch_of(child.pid, time_ns);
            ChildRow {
                pid: child.pid,
                name: child.name.clone(),
                age_ns: child.age_ns(time_ns),
                apart: child.share.is_none(),
                copied_bytes: epoch.as_ref().and_then(|epoch| epoch.copied_bytes),
                shared_bytes: epoch.as_ref().and_then(|epoch| epoch.shared_bytes),
                rss_bytes: child.now.rss_bytes,
                minor_faults: child.totals.minor_faults,
            }
        };
        Process {
            pid: account.pid,
            start_ticks: account.start_ticks.unwrap_or(0),
            name: account.name.clone(),
            ended: account.ended,
            totals: account.totals.clone(),
            now: account.now.clone(),
            minor_faults_per_s: account.per_s.0,
            writes_to_present_per_s: account.per_s.1,
            epoch,
            last_epoch: account.last_epoch.clone(),
            children_alive: children.len() as u64,
            children: children.iter().take(CHILDREN).map(row).collect(),
        }
    }
}
