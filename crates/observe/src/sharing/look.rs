// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is read of a family: /proc/PID/smaps_rollup, status and pagemap (proc_pid_smaps(5),
//! proc_pid_pagemap(5)), none of which needs root for one's own processes.

use std::collections::BTreeMap;
use std::ops::Range;

use cowlab_machine::{ProcessError, Smaps, status};
use rustix::time::ClockId;

use super::family::{Family, Member};
use crate::clock::nanoseconds;
use cowlab_machine::process::Pagemap;
use cowlab_machine::process::Target;
use cowlab_machine::process::mappings::{Mapping, mappings};

#[derive(Debug, Clone, Default)]
pub struct Look {
    /// When, since the machine started.
    pub at_ns: u64,
    /// The parent first.
    pub members: Vec<Seen>,
    /// Those that may not be looked at.
    pub unseen: Vec<i32>,
}

#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub pid: i32,
    /// Who forked it; `None` of the parent of all.
    pub parent: Option<i32>,
    /// When it started, since the machine did.
    pub started_ns: u64,
    pub rollup: Smaps,
    /// RssShmem: shared memory that it maps, private copies of it left out.
    pub shm_bytes: Option<u64>,
    pub pages: Pages,
}

/// Private pages in RAM that it alone maps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pages {
    pub own_bytes: u64,
    /// Those at addresses at which the process that forked it has a page as well; `None` of the
    /// parent of all.
    pub copied_bytes: Option<u64>,
}

impl Seen {
    /// What tells it from a later process with its number.
    pub fn key(&self) -> (i32, u64) {
        (self.pid, self.started_ns)
    }

    pub fn is_parent(&self) -> bool {
        self.parent.is_none()
    }
}

/// Addresses in order.
type Addresses = Vec<Range<u64>>;

/// Looks at everybody. Those that ended meanwhile are left out.
pub fn look(family: &Family) -> Result<Look, ProcessError> {
    let at_ns = nanoseconds(ClockId::Boottime);
    let mut look = Look { at_ns, unseen: family.unseen.clone(), ..Look::default() };
    let mut pages: BTreeMap<i32, Addresses> = BTreeMap::new();
    for member in &family.members {
        let pid = member.target.pid();
        let forks = family.members.iter().any(|other| other.parent == Some(pid));
        match see(member, forks, &mut pages) {
            Ok(seen) => look.members.push(seen),
            Err(error) if member.parent.is_none() => return Err(error),
            Err(ProcessError::NoPermission { .. }) => look.unseen.push(pid),
            Err(ProcessError::Vanished { .. } | ProcessError::Executed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(look)
}

fn see(
    member: &Member,
    forks: bool,
    pages: &mut BTreeMap<i32, Addresses>,
) -> Result<Seen, ProcessError> {
    let of = &member.target;
    let text = of.read("smaps_rollup")?;
    if text.is_empty() {
        return Err(of.lost_memory());
    }
    let rollup = Smaps::decode(&text, &of.path("smaps_rollup"))?;
    let mut walk = Walk { there: forks.then(Vec::new), ..Walk::default() };
    let parents = member.parent.and_then(|parent| pages.get(&parent));
    walk.of(of, parents.map_or(&[], Vec::as_slice))?;
    let copied_bytes = parents.map(|_| walk.copied_bytes);
    pages.extend(walk.there.map(|there| (of.pid(), there)));
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    Ok(Seen {
        pid: of.pid(),
        parent: member.parent,
        started_ns: of.start_ticks() * tick_ns,
        rollup,
        shm_bytes: status::bytes(&of.read("status")?, "RssShmem"),
        pages: Pages { own_bytes: walk.own_bytes, copied_bytes },
    })
}

/// What is added up over a process's private pages.
#[derive(Debug, Default)]
struct Walk {
    own_bytes: u64,
    copied_bytes: u64,
    /// Where it has pages, for those that it forked.
    there: Option<Addresses>,
}

impl Walk {
    fn of(&mut self, of: &Target, parents: &[Range<u64>]) -> Result<(), ProcessError> {
        let mut pagemap = Pagemap::open(of)?;
        let page_bytes = pagemap.page_bytes();
        let mut parents = parents.iter().peekable();
        // Huge pages of the pool are in neither Rss nor Anonymous.
        let is_of_pool = |mapping: &Mapping| {
            mapping.name.as_ref().is_some_and(|name| name.starts_with("/anon_hugepage"))
        };
        let mappings = mappings(of)?;
        for mapping in mappings.into_iter().filter(|one| one.is_private() && !is_of_pool(one)) {
            pagemap.for_each(of, mapping.range, |first, pages| {
                for (page, address) in pages.iter().zip((first..).step_by(page_bytes as usize)) {
                    if let (true, Some(there)) = (page.is_there(), &mut self.there) {
                        match there.last_mut() {
                            Some(last) if last.end == address => last.end += page_bytes,
                            _ => there.push(address..address + page_bytes),
                        }
                    }
                    if page.is_anonymous() && page.is_exclusive() {
                        self.own_bytes += page_bytes;
                        while parents.next_if(|range| range.end <= address).is_some() {}
                        let is_parents = parents.peek().is_some_and(|of| of.start <= address);
                        self.copied_bytes += if is_parents { page_bytes } else { 0 };
                    }
                }
            })?;
        }
        // Of memory that is gone no page is there, which is no error of the kernel's.
        if pagemap.is_current() { Ok(()) } else { Err(of.lost_memory()) }
    }
}
