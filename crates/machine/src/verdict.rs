// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Would a fork of a process fail, and what could the writes after it run into?

mod expected;

use cowlab_schema::fmt::{bytes, size};
use serde::Serialize;

pub use expected::{Expected, Replication};

use crate::facts::Facts;
use crate::limits::CAP_SYS_ADMIN;
use crate::process::ProcessFacts;

/// How bad a finding is, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing in the way.
    Ok,
    /// fork works; the writes after it may not.
    Warning,
    /// fork itself fails.
    WillFail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The outcome, in a few words.
    pub what: String,
    /// The rule and the numbers that it was decided from.
    pub why: String,
    /// The setting or step that helps; empty where nothing needs to be done.
    pub what_to_do: String,
}

/// What one fork of a process would meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The verdict in one sentence.
    pub sentence: String,
    /// Whether fork itself is refused, and by which rule.
    pub promise: String,
    /// Worst first.
    pub findings: Vec<Finding>,
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
    /// The worst level of all findings.
    pub fn level(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }
}

/// What one fork of `process` on the machine of `facts` would meet. Reads nothing and forks nothing.
pub fn fork_of(facts: &Facts, process: &ProcessFacts) -> Verdict {
    fork_expecting(facts, process, None, None)
}

/// The same with what is known of the writes after it, and of a Redis server's replicas.
pub fn fork_expecting(
    facts: &Facts,
    process: &ProcessFacts,
    expected: Option<&Expected>,
    replication: Option<&Replication>,
) -> Verdict {
    let tables = process.inherited_tables_bytes;
    let page_table_bytes = process.page_tables_bytes.map_or(tables, |own| own.min(tables));
    let private_bytes = process.anonymous_bytes.saturating_add(process.swapped_bytes.unwrap_or(0));
    let worst_case_bytes = private_bytes.saturating_add(page_table_bytes);
    // No more can be copied than there is.
    let capped = |of: &Expected| Expected {
        copied_bytes: of.copied_bytes.min(private_bytes),
        source: of.source.clone(),
    };
    let expected = expected.map(capped);
    let expected_bytes = expected.as_ref().map(|of| of.copied_bytes + page_table_bytes);
    let mut findings = vec![overcommit(facts, process)];
    findings.extend(tasks(facts, process));
    findings.extend(
        expected.as_ref().and_then(|of| expected::copies(facts, process, of, page_table_bytes)),
    );
    findings.extend(replication.and_then(|of| {
        let copied = expected_bytes.unwrap_or(worst_case_bytes);
        expected::full_synchronisation(facts, process, of, copied)
    }));
    findings.extend(copies(facts, process, worst_case_bytes));
    findings.extend(cgroups(process, worst_case_bytes));
    findings.extend(hugetlb(facts, process));
    findings.extend(hidden(process));
    findings.extend(left_out(process));
    findings.extend(huge(facts, process));
    let promise = match findings[0].level {
        Level::Ok => format!("no: {}", findings[0].why),
        _ => findings[0].what.clone(),
    };
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    let mut verdict = Verdict {
        sentence: String::new(),
        promise,
        findings,
        page_table_bytes,
        private_bytes,
        worst_case_bytes,
        expected_bytes,
    };
    verdict.sentence = expected::sentence(facts, process, &verdict, expected.as_ref());
    verdict
}

fn finding(level: Level, what: &str, why: String, what_to_do: impl Into<String>) -> Finding {
    Finding { level, what: what.to_owned(), why, what_to_do: what_to_do.into() }
}

/// `__vm_enough_memory` of mm/util.c, which fork calls once for each accounted mapping.
fn overcommit(facts: &Facts, process: &ProcessFacts) -> Finding {
    let asked = process.accounted_bytes;
    match (facts.overcommit.memory, &facts.memory) {
        (Some(1), _) => finding(
            Level::Ok,
            "the kernel promises the child its memory",
            "vm.overcommit_memory is 1: nothing is refused".into(),
            "",
        ),
        (Some(0), Some(memory)) => {
            let all = memory.total_bytes.saturating_add(memory.swap_total_bytes);
            let largest = process.largest_accounted_bytes;
            let unpromised = match process.unpromised_bytes {
                0 => String::new(),
                size => format!("; its MAP_NORESERVE mappings ({}) do not count", bytes(size)),
            };
            let why = format!(
                "vm.overcommit_memory is 0, which refuses only a mapping larger than RAM and swap \
                 ({}); its largest has {}{unpromised}",
                bytes(all),
                bytes(largest)
            );
            if largest <= all {
                return finding(Level::Ok, "the kernel promises the child its memory", why, "");
            }
            let help = "set vm.overcommit_memory to 1, or exclude the mapping from fork with \
                        madvise(MADV_DONTFORK)";
            finding(Level::WillFail, "fork fails with ENOMEM", why, help)
        }
        (Some(2), Some(memory)) if memory.commit_limit_bytes.is_some() => {
            let limit = memory.commit_limit_bytes.unwrap_or_default();
            let reserved =
                |reserve: Option<u64>, applies: bool| reserve.filter(|_| applies).unwrap_or(0);
            let is_admin = process.credentials.has(CAP_SYS_ADMIN)
                && process.in_first_user_namespace != Some(false);
            let admin = reserved(facts.overcommit.admin_reserve_bytes, !is_admin);
            let share = process.virtual_bytes.unwrap_or(0) / 32;
            let user = reserved(facts.overcommit.user_reserve_bytes, true).min(share);
            let allowed = limit.saturating_sub(admin).saturating_sub(user);
            let after = memory.committed_bytes.saturating_add(asked);
            let why = format!(
                "vm.overcommit_memory is 2: {} are promised and the child's private writable \
                 mappings add {}, which makes {} of {} (CommitLimit less the reserves)",
                bytes(memory.committed_bytes),
                bytes(asked),
                bytes(after),
                bytes(allowed)
            );
            if after < allowed {
                return finding(Level::Ok, "the kernel promises the child its memory", why, "");
            }
            let help = format!(
                "set vm.overcommit_memory to 1, or raise vm.overcommit_ratio (now {}) or add swap: \
                 {} are missing",
                facts.overcommit.ratio_percent.map_or("unknown".into(), |r| format!("{r}%")),
                bytes(after - allowed + 1)
            );
            finding(Level::WillFail, "fork fails with ENOMEM", why, help)
        }
        _ => finding(
            Level::Warning,
            "whether the kernel promises the child its memory is not known",
            format!("vm.overcommit_memory or meminfo is not readable; fork asks {}", bytes(asked)),
            "make /proc/sys/vm/overcommit_memory and /proc/meminfo readable",
        ),
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
    let mut findings = Vec::new();
    let mut counts = Vec::new();
    for (name, now, limit) in known.into_iter().flatten() {
        let why = format!("{name}: {now} of {limit} tasks");
        if now >= limit {
            let help = format!("raise {name}, or end tasks that count against it");
            findings.push(finding(Level::WillFail, "fork fails with EAGAIN", why, help));
        } else {
            counts.push(why);
        }
    }
    if findings.is_empty() && !counts.is_empty() {
        findings.push(finding(Level::Ok, "there is room for one more task", counts.join("; "), ""));
    }
    findings
}

/// Every private page copied, against the machine's memory.
fn copies(facts: &Facts, process: &ProcessFacts, worst: u64) -> Option<Finding> {
    let memory = facts.memory.as_ref()?;
    let available = memory.available_bytes.unwrap_or(memory.free_bytes);
    let swap = memory.swap_free_bytes;
    let locked = process.locked_bytes.unwrap_or(0);
    let why = format!(
        "if every private page is written while the child lives, the copies and the page tables \
         take {}; available are {} and {} of swap, and {} of the memory is locked",
        bytes(worst),
        bytes(available),
        bytes(swap),
        bytes(locked)
    );
    // A copy that the parent makes of a locked page is locked too.
    Some(if worst <= available {
        finding(Level::Ok, "all copies fit into memory", why, "")
    } else if worst <= available.saturating_add(swap) && locked <= available {
        let help = "fork while few pages are written, or free memory, so that copies need no swap";
        finding(Level::Warning, "the copies may be swapped out while the child lives", why, help)
    } else {
        let help = "fork while few pages are written, free memory or add swap, or exclude what the \
                    child does not need with madvise(MADV_DONTFORK)";
        finding(
            Level::Warning,
            "the OOM killer may end a process while pages are copied",
            why,
            help,
        )
    })
}

/// The same against the limits of the process's control groups.
fn cgroups(process: &ProcessFacts, worst: u64) -> Vec<Finding> {
    let limits = [
        (process.cgroup.tightest_max(), "the OOM killer may end a process of the control group"),
        (process.cgroup.tightest_high(), "the kernel may slow the control group down"),
    ];
    let judge = |(bound, what): (Option<&crate::cgroup::MemoryBound>, &str)| {
        let bound = bound?;
        let why = format!(
            "{} is {}, of which {} are free or can be given up; copies and page tables take up to {}",
            bound.file,
            bytes(bound.limit_bytes),
            bytes(bound.free_bytes()),
            bytes(worst)
        );
        if worst <= bound.free_bytes() {
            return Some(finding(Level::Ok, "all copies fit into the control group", why, ""));
        }
        let least = bound.limit_bytes.saturating_add(worst - bound.free_bytes());
        let help =
            format!("raise {} to {least} or more, or fork while few pages are written", bound.file);
        Some(finding(Level::Warning, what, why, help))
    };
    limits.into_iter().filter_map(judge).collect()
}

/// Private hugetlb pages come from a pool: without a free one the child is killed, not the copy
/// delayed (hugetlb_cow in mm/hugetlb.c).
fn hugetlb(facts: &Facts, process: &ProcessFacts) -> Option<Finding> {
    let private = process.hugetlb_bytes.filter(|private| *private > 0)?;
    let memory = facts.memory.as_ref()?;
    let promised = memory.hugetlb_reserved_pages.unwrap_or(0);
    let free = memory.hugetlb_free_pages?.saturating_sub(promised);
    let free = free.saturating_mul(memory.hugetlb_page_bytes?);
    let why = format!(
        "{} are private pages of the hugetlb pool, which has {} free that nobody was promised",
        bytes(private),
        bytes(free)
    );
    Some(if private <= free {
        finding(Level::Ok, "the hugetlb pool holds all copies", why, "")
    } else {
        let help = "raise vm.nr_hugepages, or map these pages shared or with MADV_DONTFORK";
        finding(
            Level::Warning,
            "the child may be killed (SIGBUS) when the parent writes",
            why,
            help,
        )
    })
}

/// Limits that cannot be seen from here.
fn hidden(process: &ProcessFacts) -> Option<Finding> {
    process.cgroup.is_hidden.then(|| {
        finding(
            Level::Warning,
            "limits of its control group are not known",
            "its group is outside of this container's".into(),
            "run this where its control group is mounted: on the host, or in its own container",
        )
    })
}

/// What the process keeps out of fork itself.
fn left_out(process: &ProcessFacts) -> Option<Finding> {
    let (kept, wiped) = (process.not_inherited_bytes, process.wiped_bytes);
    (kept + wiped > 0).then(|| {
        let why = format!(
            "mappings of {} are not inherited (MADV_DONTFORK) and of {} are empty in the child \
             (MADV_WIPEONFORK): neither is counted as copied",
            bytes(kept),
            bytes(wiped)
        );
        finding(Level::Ok, "a part of the process is left out of fork", why, "")
    })
}

/// How much of the memory fork handles by the huge page.
fn huge(facts: &Facts, process: &ProcessFacts) -> Option<Finding> {
    let pmd = facts.thp.as_ref()?.pmd_size_bytes?;
    let huge = process.huge_bytes?;
    let base = process.anonymous_bytes.saturating_sub(huge);
    let entries = base / facts.page_size_bytes.max(1) + huge / pmd.max(1);
    let why = format!(
        "fork copies about {entries} page-table entries: {} are in huge pages of {}, {} in smaller \
         ones; a write splits a huge page and copies one base page",
        bytes(huge),
        size(pmd),
        bytes(base)
    );
    let help = match process.thp_enabled {
        Some(false) if base >= pmd => "huge pages are switched off for it (PR_SET_THP_DISABLE)",
        _ => "",
    };
    Some(finding(Level::Ok, "the stop at fork grows with the page-table entries", why, help))
}
