// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a measurement fit into this machine? Decided before anything is allocated.

use std::fmt;

use cowlab_schema::fmt::bytes as size;
use serde::Serialize;

use crate::facts::Facts;

const SPARE_BYTES: u64 = 256 << 20;
/// Address space of a probe beside its heap: its image, stack and buffers.
const PROGRAM_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Need {
    /// Heap of the parent, all of it populated.
    pub heap_bytes: u64,
    /// Written after the fork for each child, so copied that often; at most `heap_bytes`.
    pub written_bytes: u64,
    /// Children that live at the same time.
    pub children: u64,
    /// The heap is a multiple of it.
    pub page_size_bytes: u64,
}

/// What a probe would run into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Limit {
    MemAvailable,
    Cgroup(String),
    /// RLIMIT_AS, for one process.
    AddressSpace,
    /// RLIMIT_DATA, for one process.
    Data,
    /// CommitLimit, where `vm.overcommit_memory` is 2.
    Commit,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct TooLarge {
    pub need: Need,
    pub needed_bytes: u64,
    pub spare_bytes: u64,
    pub free_bytes: u64,
    pub limit: Limit,
    /// The largest heap, a multiple of the page size, that fits with the same fraction written
    /// (see [`Need::with_heap`]); 0 where none does.
    pub largest_heap_bytes: u64,
}

impl Need {
    /// The same need with another heap, the same fraction of it written (rounded up).
    pub fn with_heap(&self, heap_bytes: u64) -> Need {
        let written = u128::from(self.written_bytes) * u128::from(heap_bytes);
        let written = written.div_ceil(u128::from(self.heap_bytes.max(1)));
        let written_bytes = written.try_into().unwrap_or(u64::MAX);
        Need { heap_bytes, written_bytes, ..*self }
    }

    fn takes(&self, limit: &Limit, base_page_bytes: u64) -> u128 {
        let heap =
            u128::from(self.heap_bytes).next_multiple_of(u128::from(self.page_size_bytes.max(1)));
        let processes = u128::from(self.children) + 1;
        let copies = u128::from(self.written_bytes) * u128::from(self.children);
        match limit {
            // A probe first maps and touches as much memory as the copies will take.
            Limit::AddressSpace | Limit::Data => heap.saturating_add(copies),
            // fork promises each child the whole heap, written or not.
            Limit::Commit => heap.saturating_mul(processes),
            Limit::MemAvailable | Limit::Cgroup(_) => {
                let base = u128::from(base_page_bytes.max(1));
                let tables = (heap.div_ceil(base) * 8).next_multiple_of(base);
                let tables = tables.saturating_mul(processes);
                [copies, tables, tables.div_ceil(100)].into_iter().fold(heap, u128::saturating_add)
            }
        }
    }
}

struct Room {
    limit: Limit,
    free_bytes: u64,
    spare_bytes: u64,
}

impl Room {
    fn shared(limit: Limit, free_bytes: u64) -> Room {
        Room { limit, free_bytes, spare_bytes: SPARE_BYTES.max(free_bytes / 20) }
    }

    fn of_one_process(limit: Limit, free_bytes: u64) -> Room {
        Room { limit, free_bytes, spare_bytes: PROGRAM_BYTES }
    }

    fn holds(&self, need: &Need, base_page_bytes: u64) -> bool {
        let usable = self.free_bytes.saturating_sub(self.spare_bytes);
        need.takes(&self.limit, base_page_bytes) <= u128::from(usable)
    }
}

/// Every known limit; an unknown one does not count.
fn rooms(facts: &Facts) -> Vec<Room> {
    let mut rooms = Vec::new();
    if let Some(memory) = &facts.memory {
        let available = memory.available_bytes.unwrap_or(memory.free_bytes);
        rooms.push(Room::shared(Limit::MemAvailable, available));
        if let (Some(2), Some(limit)) = (facts.overcommit.memory, memory.commit_limit_bytes) {
            let left = limit.saturating_sub(memory.committed_bytes);
            rooms.push(Room::shared(Limit::Commit, left));
        }
    }
    for bound in facts.cgroup.memory_max.iter().chain(&facts.cgroup.memory_high) {
        rooms.push(Room::shared(Limit::Cgroup(bound.file.clone()), bound.free_bytes()));
    }
    if let Some(limits) = &facts.limits {
        let own =
            [(Limit::AddressSpace, limits.address_space_bytes), (Limit::Data, limits.data_bytes)];
        for (limit, bytes) in own {
            rooms.extend(bytes.map(|bytes| Room::of_one_process(limit, bytes)));
        }
    }
    rooms
}

/// Does a probe fit: its heap, the copies that writes make, page tables (8 bytes a base page and
/// process, and 1%), and a margin (256 MiB or 5% of what is free, whichever is larger)?
///
/// Counted against MemAvailable, each control group's limit less its usage, RLIMIT_AS and
/// RLIMIT_DATA (without page tables), and where `vm.overcommit_memory` is 2 against CommitLimit less
/// Committed_AS, of which fork takes the whole heap for each child.
pub fn check(facts: &Facts, need: &Need) -> Result<(), Box<TooLarge>> {
    let rooms = rooms(facts);
    let base = facts.page_size_bytes;
    let holds = |need: &Need| rooms.iter().all(|room| room.holds(need, base));
    if holds(need) {
        return Ok(());
    }
    // What a heap takes never falls as it grows, so halving finds the largest that fits.
    let page = need.page_size_bytes.max(1);
    let sized = |pages: u64| need.with_heap(pages.saturating_mul(page));
    let (mut fits_pages, mut fails_pages) = (0, need.heap_bytes.div_ceil(page).max(1));
    while fails_pages - fits_pages > 1 {
        let middle = fits_pages + (fails_pages - fits_pages) / 2;
        if holds(&sized(middle)) { fits_pages = middle } else { fails_pages = middle }
    }
    // The limit that binds is the one that stops the next page.
    let next = if fails_pages.saturating_mul(page) >= need.heap_bytes {
        *need
    } else {
        sized(fails_pages)
    };
    let Some(room) = rooms.into_iter().find(|room| !room.holds(&next, base)) else {
        return Ok(());
    };
    Err(Box::new(TooLarge {
        need: *need,
        needed_bytes: need.takes(&room.limit, base).try_into().unwrap_or(u64::MAX),
        spare_bytes: room.spare_bytes,
        free_bytes: room.free_bytes,
        limit: room.limit,
        largest_heap_bytes: fits_pages * page,
    }))
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::MemAvailable => "MemAvailable",
            Limit::Cgroup(file) => file,
            Limit::AddressSpace => "RLIMIT_AS, see ulimit -v",
            Limit::Data => "RLIMIT_DATA, see ulimit -d",
            Limit::Commit => "CommitLimit less Committed_AS, as vm.overcommit_memory is 2",
        })
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Need { heap_bytes, written_bytes, children, .. } = self.need;
        write!(f, "a heap of {}", size(heap_bytes))?;
        if children > 0 {
            let share = match written_bytes {
                0 => "none of it".to_owned(),
                all if all >= heap_bytes => "all".to_owned(),
                part => format!("{} of it", size(part)),
            };
            let whom =
                if children == 1 { "1 child" } else { &format!("each of {children} children") };
            write!(f, ", {share} written by {whom},")?;
        }
        write!(
            f,
            " needs {} and {} to spare, but only {} are free ({}): ",
            size(self.needed_bytes),
            size(self.spare_bytes),
            size(self.free_bytes),
            self.limit
        )?;
        match self.largest_heap_bytes {
            0 => f.write_str("no heap fits; free memory or raise that limit"),
            bytes => write!(f, "the largest heap that fits is {}", size(bytes)),
        }
    }
}
