// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands out about a program's forks, as data: what was seen, why, and what to do. Reads nothing. Each finding is
//! one function here, which is silent where its facts are not there.

use cowlab_machine::Facts;
use cowlab_machine::cgroup::{CpuBound, TaskBound};
use cowlab_model::cost::primitive;
use cowlab_model::profile::MachineProfile;
use cowlab_schema::fmt::{bytes, count, several, time};
use serde::Serialize;

use super::observed::SLOW_EXEC_NS;
use super::{Forks, TargetFacts};

/// How much a finding matters, the most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Something fails or hangs, or soon will.
    Breaks,
    /// It costs time or memory.
    Costs,
    /// It explains a figure that misleads, or says what is innocent.
    Explains,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub kind: &'static str,
    pub weight: Weight,
    /// What was seen, with its figures.
    pub seen: String,
    /// Why, and what it costs.
    pub cause: String,
    /// Empty where there is nothing to be done.
    pub what_to_do: String,
    /// Whether cheaper page tables would not help: then they are not recommended.
    pub rules_out_huge_pages: bool,
}

/// A stop that is known, or predicted, and the predicted one.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    pub ns: f64,
    pub predicted_ns: f64,
    /// Whether the two are too far apart for all prices to be scaled by it.
    pub is_odd: bool,
    pub is_scaled: bool,
}

/// What findings are made of.
pub struct Known<'a> {
    pub machine: &'a Facts,
    pub facts: &'a TargetFacts,
    pub prices: &'a MachineProfile,
    pub stop: Option<Stop>,
    /// Whether the next fork is refused.
    pub is_refused: bool,
    /// What a fork is known to copy.
    pub copied_bytes: Option<u64>,
}

const MIB: u64 = 1 << 20;
/// A share of vm.max_map_count that leaves little.
const CROWDED: f64 = 0.9;
/// Waiting for a CPU may take less.
const LONG_EXEC_NS: f64 = 50e6;
/// Fewer faults without a copy are not worth a sentence.
const MANY_REUSED: f64 = 2000.0;
/// close(2).
const CLOSE: u32 = if cfg!(target_arch = "x86_64") { 3 } else { 57 };
/// A child that calls it so often closes what is not open.
const MANY_CALLS: u64 = 1000;
/// A worker that lives less has hardly worked, and what lives shorter still is none.
const SHORT_LIVES_NS: [f64; 2] = [20e6, 2e9];

/// The findings, what matters most first.
pub fn findings(of: &Known<'_>) -> Vec<Finding> {
    let all = [
        no_init(of),
        killed(of),
        stuck(of),
        many_mappings(of),
        refused_tasks(of),
        refused_memory(of),
        pinned(of),
        slow_exec(of),
        starts(of),
        quota(of),
        odd_stop(of),
        doubled(of),
        split(of),
        group_of_workers(of),
        reused(of),
        room_for_workers(of),
        short_lives(of),
        peak_of_children(of),
    ];
    let mut found: Vec<Finding> = all.into_iter().flatten().collect();
    found.sort_by_key(|one| one.weight);
    found
}

fn finding(kind: &'static str, weight: Weight, [seen, cause, help]: [String; 3]) -> Finding {
    Finding { kind, weight, seen, cause, what_to_do: help, rules_out_huge_pages: false }
}

impl Known<'_> {
    fn forks(&self) -> Option<&Forks> {
        self.facts.observed.as_ref().ok()?.forks()
    }

    fn name(&self) -> &str {
        &self.facts.name
    }

    fn price(&self, name: &str) -> Option<f64> {
        primitive(self.prices, name).map(|price| price.value)
    }

    fn group<T>(&self, of: impl Fn(&cowlab_machine::cgroup::Cgroup) -> &Vec<T>) -> &[T] {
        of(&self.facts.process.cgroup)
    }
}

fn no_init(of: &Known<'_>) -> Option<Finding> {
    of.facts.process.children_lack_init.then(|| {
        finding("no_init", Weight::Breaks, [
            format!("The pid namespace for children of {} has no init any more", of.name()),
            "each of its forks fails with ENOMEM, however much memory is free".into(),
            format!(
                "restart {} in a new pid namespace, whose first child has to live as long as it",
                of.name()
            ),
        ])
    })
}

/// Signals that end a program because of what it did, and the one that nothing can handle (signal(7)).
const SIGNALS: [(u32, &str); 6] =
    [(4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (9, "SIGKILL"), (11, "SIGSEGV")];

fn killed(of: &Known<'_>) -> Option<Finding> {
    let (forks, process) = (of.forks()?, &of.facts.process);
    let named = |signal: u32| SIGNALS.iter().find(|(number, _)| *number == signal);
    let counts = SIGNALS.iter().map(|(number, name)| {
        (forks.killed.iter().filter(|killed| killed.signal == *number).count(), *number, *name)
    });
    let (number, signal, name) = counts.max()?;
    if number == 0 {
        return None;
    }
    let is_left_out =
        |address: u64| process.not_inherited.iter().any(|range| range.contains(&address));
    let at = forks.killed.iter().filter(|killed| killed.signal == signal);
    let left_out = at.filter(|killed| is_left_out(killed.address)).count();
    let of_all = several(forks.forks as u64, "child", "children");
    let mut seen = format!("{number} of {of_all} that {} forked were ended by {name}", of.name());
    let [cause, help] = match named(signal)?.1 {
        "SIGSEGV" if left_out > 0 => {
            seen +=
                &format!(", {left_out} at memory that is left out of its forks (MADV_DONTFORK)");
            [
                "whole pages are left out, so whatever else lies on them is missing in a child as well",
                "give the buffers that it leaves out pages of their own, or start children by posix_spawn",
            ]
        }
        "SIGBUS" if process.hugetlb_bytes.unwrap_or(0) > 0 => [
            "a private hugetlb page was written after the fork, and the pool had none left for the copy",
            "raise vm.nr_hugepages, or map these pages shared or with MADV_DONTFORK",
        ],
        "SIGKILL" => [
            "either the OOM killer ended them, which the kernel's log says, or another process did",
            "if it was the OOM killer: raise the limit that its log names, or let the children write less",
        ],
        _ => {
            ["the fault is in what the child does after the fork", "look at a core dump of a child"]
        }
    };
    let weight = if signal == 9 { Weight::Costs } else { Weight::Breaks };
    Some(finding("killed", weight, [seen, cause.into(), help.into()]))
}

fn stuck(of: &Known<'_>) -> Option<Finding> {
    let stuck = of.facts.stuck as u64;
    let threads = of.facts.process.threads;
    (stuck > 0).then(|| {
        finding("stuck", Weight::Breaks, [
            format!(
                "{} of {} hang: each waits for a lock in memory that only itself could open",
                several(stuck, "child", "children"),
                of.name()
            ),
            format!(
                "another thread of {} held the lock when it forked, and only the forking thread is \
                 in a child ({threads} threads now)",
                of.name()
            ),
            "kill them; fork before threads start, or start children by exec (Python: \
             multiprocessing's spawn or forkserver), or guard the lock with pthread_atfork(3)"
                .into(),
        ])
    })
}

fn many_mappings(of: &Known<'_>) -> Option<Finding> {
    let process = &of.facts.process;
    let (now, most) = (process.mappings, of.machine.max_map_count?);
    let is_full = now as f64 >= CROWDED * most as f64;
    let bare = process.mappings - process.inherited_anonymous_mappings;
    let mappings_ns = process.inherited_anonymous_mappings as f64 * of.price("vma_anon_ns")?
        + bare as f64 * of.price("vma_ns")?;
    let stop = of.stop?;
    // As all prices are, where the stop is known.
    let mappings_ns = mappings_ns * if stop.is_scaled { stop.ns / stop.predicted_ns } else { 1.0 };
    if !is_full && (mappings_ns < 1e6 || mappings_ns < 0.5 * stop.ns) {
        return None;
    }
    let left_out = now - process.inherited_mappings;
    let pieces = match left_out {
        0..=999 => String::new(),
        _ => format!(
            "; {} of them are left out of its forks (MADV_DONTFORK), {} each on average",
            count(left_out),
            bytes(process.not_inherited_bytes / left_out)
        ),
    };
    let next = if is_full {
        "the next mmap, or madvise that splits one, fails with ENOMEM, and "
    } else {
        ""
    };
    let seen = format!(
        "{} has {} mappings of at most {} (vm.max_map_count){pieces}",
        of.name(),
        count(now),
        count(most)
    );
    let cause = format!(
        "{next}a fork handles mappings one by one: they take about {} of its stop",
        time(mappings_ns)
    );
    let help = match left_out {
        0..=999 => {
            "let neighbouring mappings merge: the same protection and advice for all of an area"
        }
        _ => {
            "undo MADV_DONTFORK (MADV_DOFORK) where a buffer is given back, and take buffers from one \
             area that is marked once"
        }
    };
    let weight = if is_full { Weight::Breaks } else { Weight::Costs };
    let found = finding("mappings", weight, [seen, cause, help.into()]);
    Some(Finding { rules_out_huge_pages: true, ..found })
}

fn refused_tasks(of: &Known<'_>) -> Option<Finding> {
    let bounds = of.group(|group| &group.tasks).iter();
    let TaskBound { file, limit, current, refused } =
        bounds.max_by_key(|bound| bound.refused).filter(|bound| bound.refused > Some(0))?;
    let now = current.map_or(String::new(), |now| format!(", {now} now"));
    Some(finding(
        "refused_tasks",
        Weight::Costs,
        [
            format!(
                "{file} has refused {} so far (EAGAIN)",
                several(refused.unwrap_or(0), "fork or thread", "forks and threads")
            ),
            format!("it allows {limit} tasks{now}, and counts those of the whole group"),
            format!("raise {file} above what the group needs at its busiest"),
        ],
    ))
}

fn refused_memory(of: &Known<'_>) -> Option<Finding> {
    let sizes = &of.facts.unpromised;
    let largest = sizes.iter().max().filter(|_| !of.is_refused)?;
    Some(finding("refused_memory", Weight::Costs, [
        format!(
            "The kernel has refused {} {} so far, the largest {} (its log)",
            of.name(),
            several(sizes.len() as u64, "promise of memory", "promises of memory"),
            bytes(*largest)
        ),
        "by vm.overcommit_memory, which counts what is mapped, not what is used: fork and mmap fail \
         with ENOMEM then"
            .into(),
        "set vm.overcommit_memory to 1, map it in pieces that cannot merge, or leave it out of forks \
         (MADV_DONTFORK)"
            .into(),
    ]))
}

fn pinned(of: &Known<'_>) -> Option<Finding> {
    let pinned = of.facts.process.pinned_bytes.filter(|pinned| *pinned >= MIB)?;
    let pages = pinned / of.machine.page_size_bytes.max(1);
    let copies = of.price("memcpy_ns_per_page").map_or(String::new(), |price| {
        format!(", about {} for copying alone", time(pages as f64 * price))
    });
    let found = finding("pinned", Weight::Costs, [
        format!("{} of {} are pinned for a device (io_uring, RDMA, GPU)", bytes(pinned), of.name()),
        format!(
            "a fork copies pinned pages at once, while it stops the program: {} pages{copies}; tend and \
             huge pages cannot help",
            count(pages)
        ),
        "unregister the buffers before a fork, leave them out of it (MADV_DONTFORK), or start children \
         by posix_spawn"
            .into(),
    ]);
    Some(Finding { rules_out_huge_pages: true, ..found })
}

fn slow_exec(of: &Known<'_>) -> Option<Finding> {
    let forks = of.forks()?;
    let (until, stop) = (forks.until_exec_ns?, forks.stop_ns.unwrap_or(0.0));
    // Without a cause it may be that the child waited for a CPU.
    let has_cause = forks.call.is_some_and(|(_, calls)| calls > MANY_CALLS);
    if until < 2.0 * stop || until < if has_cause { SLOW_EXEC_NS } else { LONG_EXEC_NS } {
        return None;
    }
    let (call, help) = match forks.call {
        Some((CLOSE, calls)) if calls > MANY_CALLS => (
            format!(", most of it about {} calls of close(2) each", count(calls)),
            "close with close_range(2), or only what is open, or lower RLIMIT_NOFILE",
        ),
        Some((number, calls)) if calls > MANY_CALLS => (
            format!(", and each makes system call {number} about {} times", count(calls)),
            "let the child do less before its exec",
        ),
        _ => (String::new(), "let the child do less before its exec"),
    };
    let found = finding(
        "slow_exec",
        Weight::Costs,
        [
            format!(
                "From fork to exec children of {} take {} (the longest: {}); the fork itself takes {}",
                of.name(),
                time(until),
                time(forks.longest_until_exec_ns.unwrap_or(until)),
                time(stop)
            ),
            format!(
                "the fork is innocent: children spend the time before they execute a program{call}"
            ),
            format!(
                "{help}; callers that wait for the exec (libuv, Python's subprocess) wait as long"
            ),
        ],
    );
    Some(Finding { rules_out_huge_pages: true, ..found })
}

/// Programs that are started by a fork, where nothing needs to be copied.
fn starts(of: &Known<'_>) -> Option<Finding> {
    let forks = of.forks().filter(|forks| forks.execute())?;
    let stop = forks.stop_ns.filter(|stop| *stop >= 1e6)?;
    let others = match forks.spawns {
        0 => String::new(),
        spawns => format!(", the other {spawns} by vfork or posix_spawn"),
    };
    Some(finding("starts", Weight::Costs, [
        format!(
            "{} of the {} programs that {} started were forked{others}",
            forks.executed,
            forks.executed + forks.spawns,
            of.name()
        ),
        format!(
            "a fork copies the page tables first, {} each, and so does CLONE_VFORK without CLONE_VM; the \
             programs need nothing of it",
            time(stop)
        ),
        "start them by posix_spawn or vfork (Python: subprocess without preexec_fn); from outside: the choices \
         below"
            .into(),
    ]))
}

fn quota(of: &Known<'_>) -> Option<Finding> {
    let throttled = of.facts.throttled_ns.filter(|ns| *ns > 1_000_000)?;
    let bounds = of.group(|group| &group.cpu).iter();
    let CpuBound { file, quota_ns, period_ns, .. } =
        bounds.min_by_key(|bound| bound.quota_ns * 1000 / bound.period_ns.max(1))?;
    let lasted_s = of.forks().map_or(f64::INFINITY, |forks| forks.duration_s);
    // The kernel adds up the time of each CPU's queue.
    let throttled_ns = (throttled as f64).min(lasted_s * 1e9);
    let lasted = of.forks().map_or(String::new(), |_| format!(" of {lasted_s:.0} s"));
    let found = finding(
        "quota",
        Weight::Costs,
        [
            format!(
                "The CPU quota held {}'s control group back for {}{lasted}",
                of.name(),
                time(throttled_ns)
            ),
            format!(
                "{file} allows {} of CPU time in each {}: a stop that the program measures itself has this in it",
                time(*quota_ns as f64),
                time(*period_ns as f64)
            ),
            format!("raise {file}, or spread the work that the fork and the child do"),
        ],
    );
    Some(Finding { rules_out_huge_pages: true, ..found })
}

/// What no price explains.
fn odd_stop(of: &Known<'_>) -> Option<Finding> {
    let stop = of.stop.filter(|stop| stop.is_odd && stop.ns > stop.predicted_ns.max(1e6))?;
    let is_explained = pinned(of).is_some() || quota(of).is_some() || many_mappings(of).is_some();
    (!is_explained).then(|| {
        finding("odd_stop", Weight::Costs, [
            format!("A stop of {} is {:.0} times what its page tables cost", time(stop.ns), stop.ns / stop.predicted_ns),
            format!(
                "{} are predicted; the rest is a hypervisor that gives memory late, a CPU quota, steal, or other \
                 work on the CPUs, and no choice below is priced by it",
                time(stop.predicted_ns)
            ),
            "look at steal (vmstat) and cpu.stat's throttled time while it forks".into(),
        ])
    })
}

/// Huge pages that it asked for and has no more.
fn split(of: &Known<'_>) -> Option<Finding> {
    let (process, thp) = (&of.facts.process, of.machine.thp.as_ref()?);
    let always = thp.enabled.as_deref() == Some("always") && process.thp_enabled != Some(false);
    let allowed = if always { process.anonymous_bytes } else { process.advised_bytes };
    let huge = process.huge_bytes.filter(|huge| allowed >= 32 * MIB && huge * 2 < allowed)?;
    let found = finding("split", Weight::Costs, [
        format!(
            "{} of {} may be huge pages, and {} are",
            bytes(allowed),
            of.name(),
            bytes(huge)
        ),
        "a write after a fork splits a huge page: it copies 4 KiB, and from then on each fork copies 512 entries \
         for that page again"
            .into(),
        format!(
            "{} makes them whole again; the setting has done what it can",
            cowlab_schema::Command::Tend.of(&of.facts.word)
        ),
    ]);
    of.forks().filter(|forks| forks.forks > 0)?;
    Some(Finding { rules_out_huge_pages: true, ..found })
}

fn doubled(of: &Known<'_>) -> Option<Finding> {
    let process = &of.facts.process;
    let private = process.private_of_memory_files_bytes;
    let twice = process.memory_files_bytes?.min(private);
    if twice < 16 * MIB {
        return None;
    }
    let found = finding("doubled", Weight::Costs, [
        format!(
            "{} of {} are copies of pages of a memory file (memfd), which holds {} of its own as well",
            bytes(private),
            of.name(),
            bytes(twice)
        ),
        "the first write to a private mapping of an empty memory file makes the file's page and then copies \
         it: each page is there twice, and nobody reads the file's"
            .into(),
        format!(
            "map it with MAP_SHARED, or use anonymous memory: {} less; huge pages cannot be had for such copies",
            bytes(twice)
        ),
    ]);
    Some(Finding { rules_out_huge_pages: 2 * private > process.anonymous_bytes, ..found })
}

fn group_of_workers(of: &Known<'_>) -> Option<Finding> {
    let bound = of.facts.group_of_workers.as_ref()?;
    let private = of.facts.process.anonymous_bytes;
    (bound.free_bytes() < private).then(|| {
        finding(
            "group_of_workers",
            Weight::Costs,
            [
                format!(
                    "Its workers are in another control group, {} of which is {}: {} are free",
                    bound.file,
                    bytes(bound.limit_bytes),
                    bytes(bound.free_bytes())
                ),
                format!("what a worker copies counts there, at most {} each", bytes(private)),
                format!("raise {}, or let the workers write less", bound.file),
            ],
        )
    })
}

fn reused(of: &Known<'_>) -> Option<Finding> {
    let observed = of.facts.observed.as_ref().ok()?;
    let pages = observed.reused_per_fork().filter(|pages| *pages >= MANY_REUSED)?;
    Some(finding("reused", Weight::Explains, [
        format!(
            "After each fork {} pages were written whose child had gone: a fault each, and no copy",
            count(pages as u64)
        ),
        "a fork write-protects all pages, and the first write to each takes a fault to find out that nobody \
         shares it; with huge pages it is one for 512"
            .into(),
        String::new(),
    ]))
}

fn room_for_workers(of: &Known<'_>) -> Option<Finding> {
    let facts = of.facts;
    let own = *facts.own_bytes.get(facts.own_bytes.len() / 2)?;
    let tables = facts.tables_of_children_bytes?;
    let each = own + tables;
    let available = of.machine.memory.as_ref()?.available_bytes?;
    let shared = facts.process.shared_memory_bytes.filter(|shared| *shared >= MIB);
    let once = shared.map_or(String::new(), |shared| {
        format!("; {} of shared memory are there once", bytes(shared))
    });
    (facts.own_bytes.len() > 1 && each > 0 && facts.stuck == 0).then(|| {
        finding(
            "room_for_workers",
            Weight::Explains,
            [
                format!(
                    "Each more worker adds about {}: {} of its own and {} of page tables{once}",
                    bytes(each),
                    bytes(own),
                    bytes(tables)
                ),
                format!(
                    "where {} are available, about {} more would fit as they are now",
                    bytes(available),
                    count(available / each)
                ),
                String::new(),
            ],
        )
    })
}

fn short_lives(of: &Known<'_>) -> Option<Finding> {
    let forks = of.forks()?;
    let [least, most] = SHORT_LIVES_NS;
    let life = forks.life_ns.filter(|life| (least..most).contains(life) && forks.ended >= 3)?;
    let resident = of.facts.process.resident_bytes.filter(|resident| *resident >= 32 * MIB)?;
    let own = of.copied_bytes.filter(|own| own * 10 < resident)?;
    (forks.executed == 0).then(|| {
        finding("short_lives", Weight::Explains, [
            format!(
                "Its children live for {} and have {} of their own, beside {} that they only share",
                time(life),
                bytes(own),
                bytes(resident)
            ),
            format!(
                "a limit on a worker's resident memory (Celery's max_memory_per_child) counts all of it: below {} \
                 it ends each worker at its birth",
                bytes(resident)
            ),
String::new(),
        ])
    })
}

fn peak_of_children(of: &Known<'_>) -> Option<Finding> {
    let forks = of.forks()?;
    let peak = of.facts.process.peak_bytes.filter(|peak| *peak >= 64 * MIB)?;
    (forks.executed + forks.spawns > 0).then(|| {
        finding("peak_of_children", Weight::Explains, [
            format!("wait4's ru_maxrss of programs that {} starts says at least {}", of.name(), bytes(peak)),
            "an exec keeps the peak that the child had as its parent's copy: it is the parent's memory".into(),
            "a program's own peak is VmHWM in its /proc/PID/status".into(),
        ])
    })
}
