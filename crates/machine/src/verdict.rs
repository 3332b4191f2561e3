// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Would a fork of a process fail, and what could the writes after it run into? Findings with the figures that
//! they were decided from; the words are the renderer's. Reads nothing and forks nothing.

use serde::Serialize;

use crate::facts::Facts;
use crate::limits::CAP_SYS_ADMIN;
use crate::process::ProcessFacts;

/// How bad a finding is, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Ok,
    /// fork works; the writes after it may not.
    Warning,
    WillFail,
}

/// What Redis says of its replication (INFO, CONFIG GET); `None` where it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replication {
    /// rdb_last_cow_size: copied during the last snapshot.
    pub last_cow_bytes: Option<u64>,
    pub replicas: Option<u64>,
    /// Of client-output-buffer-limit's class replica the hard limit; 0 is none.
    pub replica_buffer_bytes: Option<u64>,
    pub diskless: Option<bool>,
    /// maxmemory; 0 is none.
    pub max_memory_bytes: Option<u64>,
    pub used_memory_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Room {
    pub free_bytes: u64,
    /// The limit of a control group; else the machine's memory sets it.
    pub cgroup_file: Option<String>,
    /// Swap, where it counts as room.
    pub swap_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskLimit {
    pub name: String,
    pub now: u64,
    pub limit: u64,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    /// vm.overcommit_memory is 1.
    AlwaysPromised,
    /// It is 0, which refuses only a mapping larger than RAM and swap; `unpromised_bytes` are MAP_NORESERVE.
    LargestMapping { largest_bytes: u64, limit_bytes: u64, unpromised_bytes: u64 },
    /// It is 2: `allowed_bytes` are CommitLimit less the reserves.
    Commit {
        committed_bytes: u64,
        asked_bytes: u64,
        allowed_bytes: u64,
        ratio_percent: Option<u64>,
    },
    /// The setting, or the machine's memory, cannot be read.
    PromiseUnknown { asked_bytes: u64 },
    /// There is room for one more task.
    Tasks { limits: Vec<TaskLimit> },
    /// There is none: EAGAIN.
    TasksReached(TaskLimit),
    /// Every private page copied, against the machine's memory.
    Copies { need_bytes: u64, available_bytes: u64, swap_bytes: u64, locked_bytes: u64 },
    /// The copies that are expected, against the least room there is.
    Expected { copied_bytes: u64, need_bytes: u64, room: Room },
    /// A full synchronisation forks as a snapshot does, and keeps what is written meanwhile for each replica
    /// in a buffer as well; a `buffer_bytes` of 0 has no bound.
    FullSynchronisation {
        diskless: Option<bool>,
        replicas: u64,
        buffer_bytes: u64,
        need_bytes: u64,
        room: Room,
        max_memory_bytes: Option<u64>,
        used_memory_bytes: Option<u64>,
    },
    /// Every private page copied, against a control group: above memory.max the OOM killer acts, above
    /// memory.high the kernel slows the group down.
    Cgroup { file: String, limit_bytes: u64, free_bytes: u64, need_bytes: u64, is_hard: bool },
    /// Private hugetlb pages come from a pool: without a free one the child is killed, not the copy
    /// delayed (hugetlb_cow in mm/hugetlb.c).
    Hugetlb { private_bytes: u64, free_bytes: u64 },
    /// Limits of its control group cannot be seen from here.
    HiddenCgroup,
    /// Mappings that a child does not get (MADV_DONTFORK), or gets empty (MADV_WIPEONFORK).
    LeftOut { not_inherited_bytes: u64, wiped_bytes: u64 },
    Entries {
        entries: u64,
        huge_bytes: u64,
        huge_page_bytes: u64,
        base_bytes: u64,
        huge_pages_are_off: bool,
    },
}

impl Finding {
    pub fn level(&self) -> Level {
        let is_bad = |is_bad: bool, level: Level| if is_bad { level } else { Level::Ok };
        match self {
            Finding::LargestMapping { largest_bytes, limit_bytes, .. } => {
                is_bad(largest_bytes > limit_bytes, Level::WillFail)
            }
            Finding::Commit { committed_bytes, asked_bytes, allowed_bytes, .. } => is_bad(
                committed_bytes.saturating_add(*asked_bytes) >= *allowed_bytes,
                Level::WillFail,
            ),
            Finding::TasksReached(_) => Level::WillFail,
            Finding::PromiseUnknown { .. } | Finding::HiddenCgroup => Level::Warning,
            Finding::Copies { need_bytes, available_bytes, .. } => {
                is_bad(need_bytes > available_bytes, Level::Warning)
            }
            Finding::Expected { need_bytes, room, .. } => {
                is_bad(*need_bytes > room.free_bytes, Level::Warning)
            }
            Finding::FullSynchronisation { buffer_bytes, need_bytes, room, .. } => {
                is_bad(*buffer_bytes == 0 || *need_bytes > room.free_bytes, Level::Warning)
            }
            Finding::Cgroup { free_bytes, need_bytes, .. } => {
                is_bad(need_bytes > free_bytes, Level::Warning)
            }
            Finding::Hugetlb { private_bytes, free_bytes } => {
                is_bad(private_bytes > free_bytes, Level::Warning)
            }
            _ => Level::Ok,
        }
    }
}

/// What one fork of a process would meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub level: Level,
    /// Worst first.
    #[serde(skip)]
    pub findings: Vec<Finding>,
    /// Whether all that may refuse it could be seen.
    pub is_certain: bool,
    /// The least room that copies have; `None` where that is not known.
    pub room: Option<Room>,
    /// Page tables that the child gets at fork, at most.
    pub page_table_bytes: u64,
    /// Private memory that the two share after fork, in RAM or in swap.
    pub private_bytes: u64,
    /// Memory taken if every private page is written while the child lives, page tables included.
    pub worst_case_bytes: u64,
    /// Memory taken if what is expected to be written is, page tables included; `None` where
    /// nobody knows.
    pub expected_bytes: Option<u64>,
}

impl Verdict {
    /// Whether the kernel promises the child its memory.
    pub fn promise(&self) -> Option<&Finding> {
        self.findings.iter().find(|one| {
            matches!(
                one,
                Finding::AlwaysPromised
                    | Finding::LargestMapping { .. }
                    | Finding::Commit { .. }
                    | Finding::PromiseUnknown { .. }
            )
        })
    }
}

/// What one fork of `process` on the machine of `facts` would meet, where `copied_bytes` are expected to be copied
/// after it, and a Redis server said what its replicas may need.
pub fn fork_of(
    facts: &Facts,
    process: &ProcessFacts,
    copied_bytes: Option<u64>,
    replication: Option<&Replication>,
) -> Verdict {
    let tables = process.inherited_tables_bytes;
    let page_table_bytes = process.page_tables_bytes.map_or(tables, |own| own.min(tables));
    let private_bytes = process.anonymous_bytes.saturating_add(process.swapped_bytes.unwrap_or(0));
    let worst_case_bytes = private_bytes.saturating_add(page_table_bytes);
    // No more can be copied than there is.
    let copied_bytes = copied_bytes.map(|bytes| bytes.min(private_bytes));
    let expected_bytes = copied_bytes.map(|bytes| bytes + page_table_bytes);
    let room = room(facts, process);
    let mut findings = vec![overcommit(facts, process)];
    findings.extend(tasks(facts, process));
    if let (Some(copied_bytes), Some(need_bytes), Some(room)) =
        (copied_bytes, expected_bytes, &room)
    {
        findings.push(Finding::Expected { copied_bytes, need_bytes, room: room.clone() });
    }
    findings.extend(replication.zip(room.clone()).and_then(|(replication, room)| {
        full_synchronisation(replication, room, expected_bytes.unwrap_or(worst_case_bytes))
    }));
    findings.extend(facts.memory.as_ref().map(|memory| Finding::Copies {
        need_bytes: worst_case_bytes,
        available_bytes: memory.available_bytes.unwrap_or(memory.free_bytes),
        swap_bytes: memory.swap_free_bytes,
        // A copy that the parent makes of a locked page is locked too.
        locked_bytes: process.locked_bytes.unwrap_or(0),
    }));
    let cgroup = &process.cgroup;
    for (bound, is_hard) in [(cgroup.tightest_max(), true), (cgroup.tightest_high(), false)] {
        findings.extend(bound.map(|bound| Finding::Cgroup {
            file: bound.file.clone(),
            limit_bytes: bound.limit_bytes,
            free_bytes: bound.free_bytes(),
            need_bytes: worst_case_bytes,
            is_hard,
        }));
    }
    findings.extend(hugetlb(facts, process));
    findings.extend(cgroup.is_hidden.then_some(Finding::HiddenCgroup));
    let (not_inherited_bytes, wiped_bytes) = (process.not_inherited_bytes, process.wiped_bytes);
    findings.extend(
        (not_inherited_bytes + wiped_bytes > 0)
            .then_some(Finding::LeftOut { not_inherited_bytes, wiped_bytes }),
    );
    findings.extend(entries(facts, process));
    // Where the pool is empty a process is killed for certain, and elsewhere only perhaps.
    let is_certain = |finding: &Finding| matches!(finding, Finding::Hugetlb { .. });
    findings.sort_by_key(|one| std::cmp::Reverse((one.level(), is_certain(one))));
    Verdict {
        level: findings[0].level(),
        findings,
        is_certain: facts.overcommit.memory.is_some()
            && facts.memory.is_some()
            && !cgroup.is_hidden,
        room,
        page_table_bytes,
        private_bytes,
        worst_case_bytes,
        expected_bytes,
    }
}

fn room(facts: &Facts, process: &ProcessFacts) -> Option<Room> {
    let machine = facts.memory.as_ref().map(|memory| {
        let available = memory.available_bytes.unwrap_or(memory.free_bytes);
        let swap_bytes = memory.swap_free_bytes;
        Room { free_bytes: available.saturating_add(swap_bytes), cgroup_file: None, swap_bytes }
    });
    let group = process.cgroup.tightest_max().map(|bound| Room {
        free_bytes: bound.free_bytes(),
        cgroup_file: Some(bound.file.clone()),
        swap_bytes: 0,
    });
    machine.into_iter().chain(group).min_by_key(|room| room.free_bytes)
}

/// `__vm_enough_memory` of mm/util.c, which fork calls once for each accounted mapping.
fn overcommit(facts: &Facts, process: &ProcessFacts) -> Finding {
    let asked_bytes = process.accounted_bytes;
    match (facts.overcommit.memory, &facts.memory) {
        (Some(1), _) => Finding::AlwaysPromised,
        (Some(0), Some(memory)) => Finding::LargestMapping {
            largest_bytes: process.largest_accounted_bytes,
            limit_bytes: memory.total_bytes.saturating_add(memory.swap_total_bytes),
            unpromised_bytes: process.unpromised_bytes,
        },
        (Some(2), Some(memory)) if memory.commit_limit_bytes.is_some() => {
            let limit = memory.commit_limit_bytes.unwrap_or_default();
            let reserved =
                |reserve: Option<u64>, applies: bool| reserve.filter(|_| applies).unwrap_or(0);
            let is_admin = process.credentials.has(CAP_SYS_ADMIN)
                && process.in_first_user_namespace != Some(false);
            let admin = reserved(facts.overcommit.admin_reserve_bytes, !is_admin);
            let share = process.virtual_bytes.unwrap_or(0) / 32;
            let user = reserved(facts.overcommit.user_reserve_bytes, true).min(share);
            Finding::Commit {
                committed_bytes: memory.committed_bytes,
                asked_bytes,
                allowed_bytes: limit.saturating_sub(admin).saturating_sub(user),
                ratio_percent: facts.overcommit.ratio_percent,
            }
        }
        _ => Finding::PromiseUnknown { asked_bytes },
    }
}

/// Limits on tasks: fork fails with EAGAIN where one is reached.
fn tasks(facts: &Facts, process: &ProcessFacts) -> Vec<Finding> {
    let tightest = process.cgroup.tightest_tasks();
    let group = tightest.and_then(|bound| Some((bound.file.clone(), bound.current?, bound.limit)));
    let own = process.processes_limit().zip(process.user_tasks);
    let now = facts.tasks.threads;
    let known = [
        group,
        own.map(|(limit, now)| (format!("RLIMIT_NPROC of uid {}", process.uid), now, limit)),
        now.zip(facts.tasks.threads_max)
            .map(|(now, limit)| ("kernel.threads-max".into(), now, limit)),
        now.zip(facts.tasks.pid_max).map(|(now, limit)| ("kernel.pid_max".into(), now, limit)),
    ];
    let limit = |(name, now, limit)| TaskLimit { name, now, limit };
    let (reached, limits): (Vec<_>, Vec<_>) =
        known.into_iter().flatten().map(limit).partition(|of| of.now >= of.limit);
    match (reached.is_empty(), limits.is_empty()) {
        (true, true) => Vec::new(),
        (true, false) => vec![Finding::Tasks { limits }],
        (false, _) => reached.into_iter().map(Finding::TasksReached).collect(),
    }
}

fn full_synchronisation(of: &Replication, room: Room, copied_bytes: u64) -> Option<Finding> {
    // The replica that asks for it is one at least, connected or not.
    let replicas = of.replicas.unwrap_or(0).max(1);
    let buffer_bytes = of.replica_buffer_bytes?;
    Some(Finding::FullSynchronisation {
        diskless: of.diskless,
        replicas,
        buffer_bytes,
        need_bytes: copied_bytes.saturating_add(buffer_bytes.saturating_mul(replicas)),
        room,
        max_memory_bytes: of.max_memory_bytes.filter(|max| *max > 0),
        used_memory_bytes: of.used_memory_bytes,
    })
}

fn hugetlb(facts: &Facts, process: &ProcessFacts) -> Option<Finding> {
    let private_bytes = process.hugetlb_bytes.filter(|private| *private > 0)?;
    let memory = facts.memory.as_ref()?;
    let promised = memory.hugetlb_reserved_pages.unwrap_or(0);
    let free = memory.hugetlb_free_pages?.saturating_sub(promised);
    Some(Finding::Hugetlb {
        private_bytes,
        free_bytes: free.saturating_mul(memory.hugetlb_page_bytes?),
    })
}

/// How much of the memory fork handles by the huge page.
fn entries(facts: &Facts, process: &ProcessFacts) -> Option<Finding> {
    let huge_page_bytes = facts.thp.as_ref()?.pmd_size_bytes?;
    let huge_bytes = process.huge_bytes?;
    let base_bytes = process.anonymous_bytes.saturating_sub(huge_bytes);
    Some(Finding::Entries {
        entries: base_bytes / facts.page_size_bytes.max(1) + huge_bytes / huge_page_bytes.max(1),
        huge_bytes,
        huge_page_bytes,
        base_bytes,
        huge_pages_are_off: process.thp_enabled == Some(false) && base_bytes >= huge_page_bytes,
    })
}
