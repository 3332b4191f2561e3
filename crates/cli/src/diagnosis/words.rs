// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words for findings and figures.

use cowlab_machine::verdict::{Finding, Level, Room, Verdict};
use cowlab_model::advice::{Advice, Choice, Forecast};
use cowlab_schema::Command;
use cowlab_schema::fmt::{bytes, capital, size, time};
use serde::Serialize;

use super::{Amount, Costs, Source};
use crate::profile_file::USUAL_COSTS;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worded {
    pub level: Level,
    /// The outcome, in a few words.
    pub what: String,
    /// The rule and the numbers that it was decided from.
    pub why: String,
    /// The setting or step that helps; empty where nothing needs to be done.
    pub what_to_do: String,
}

/// What was found, in words. `copies_by`: who says how much is expected to be copied.
pub fn worded(finding: &Finding, copies_by: Source) -> Worded {
    let level = finding.level();
    let is_ok = level == Level::Ok;
    let promised =
        if is_ok { "the kernel promises the child its memory" } else { "fork fails with ENOMEM" };
    let (what, why, help): (&str, String, String) = match finding {
        Finding::AlwaysPromised => {
            (promised, "vm.overcommit_memory is 1: nothing is refused".into(), String::new())
        }
        Finding::LargestMapping { largest_bytes, limit_bytes, unpromised_bytes } => {
            let unpromised = match unpromised_bytes {
                0 => String::new(),
                size => format!("; its MAP_NORESERVE mappings ({}) do not count", bytes(*size)),
            };
            let why = format!(
                "vm.overcommit_memory is 0, which refuses only a mapping larger than RAM and swap \
                 ({}); its largest has {}{unpromised}",
                bytes(*limit_bytes),
                bytes(*largest_bytes)
            );
            let help = "set vm.overcommit_memory to 1, or exclude the mapping from fork with \
                        madvise(MADV_DONTFORK)";
            (promised, why, help.into())
        }
        Finding::Commit { committed_bytes, asked_bytes, allowed_bytes, ratio_percent } => {
            let after = committed_bytes.saturating_add(*asked_bytes);
            let why = format!(
                "vm.overcommit_memory is 2: {} are committed and the child's private writable \
                 mappings add {}, which makes {} of {} (CommitLimit less the reserves)",
                bytes(*committed_bytes),
                bytes(*asked_bytes),
                bytes(after),
                bytes(*allowed_bytes)
            );
            let help = format!(
                "set vm.overcommit_memory to 1, or raise vm.overcommit_ratio (now {}) or add swap: \
                 {} are missing",
                ratio_percent.map_or("unknown".into(), |ratio| format!("{ratio}%")),
                bytes(after.saturating_sub(*allowed_bytes) + 1)
            );
            (promised, why, help)
        }
        Finding::PromiseUnknown { asked_bytes } => (
            "whether the kernel promises the child its memory is not known",
            format!(
                "vm.overcommit_memory or meminfo is not readable; fork asks {}",
                bytes(*asked_bytes)
            ),
            "make /proc/sys/vm/overcommit_memory and /proc/meminfo readable".into(),
        ),
        Finding::Tasks { limits } => {
            let counts =
                limits.iter().map(|of| format!("{}: {} of {} tasks", of.name, of.now, of.limit));
            let counts: Vec<String> = counts.collect();
            ("there is room for one more task", counts.join("; "), String::new())
        }
        Finding::TasksReached(of) => (
            "fork fails with EAGAIN",
            format!("{}: {} of {} tasks", of.name, of.now, of.limit),
            format!("raise {}, or end tasks that count against it", of.name),
        ),
        Finding::Copies { need_bytes, available_bytes, swap_bytes, locked_bytes } => {
            let why = format!(
                "if every private page is written while the child lives, the copies and the page tables \
                 take {}; available are {} and {} of swap, and {} of the memory is locked",
                bytes(*need_bytes),
                bytes(*available_bytes),
                bytes(*swap_bytes),
                bytes(*locked_bytes)
            );
            let swaps = *need_bytes <= available_bytes.saturating_add(*swap_bytes)
                && locked_bytes <= available_bytes;
            match (is_ok, swaps) {
                (true, _) => ("all copies fit into memory", why, String::new()),
                (false, true) => (
                    "the copies may be swapped out while the child lives",
                    why,
                    "fork while few pages are written, or free memory, so that copies need no swap".into(),
                ),
                (false, false) => (
                    "the OOM killer may end a process while pages are copied",
                    why,
                    "fork while few pages are written, free memory or add swap, or exclude what the \
                     child does not need with madvise(MADV_DONTFORK)"
                        .into(),
                ),
            }
        }
        Finding::Expected { copied_bytes, need_bytes, room } => {
            let why = format!(
                "by {}, {} are copied while the child lives, with the page tables {}; {}",
                by(copies_by),
                bytes(*copied_bytes),
                bytes(*need_bytes),
                available(room)
            );
            let missing = bytes(need_bytes.saturating_sub(room.free_bytes));
            let help = format!(
                "free {missing} or raise the limit before the next fork, or fork while fewer pages are written"
            );
            let what =
                if is_ok { "the copies expected fit" } else { "the copies expected do not fit" };
            (what, why, help)
        }
        Finding::FullSynchronisation {
            diskless,
            replicas,
            buffer_bytes,
            need_bytes,
            room,
            max_memory_bytes,
            used_memory_bytes,
        } => {
            let way = match diskless {
                Some(true) => {
                    "without a disk: the child lives, and pages are copied, until the slowest replica has \
                     read it all"
                }
                Some(false) => "by a file: the child lives until that is written",
                None => "by a file or without a disk",
            };
            let is_endless = *buffer_bytes == 0;
            let mut why = format!(
                "a full synchronisation is {way}; {replicas} replica(s) may hold {} of output each \
                 (client-output-buffer-limit), with the copies {}; {}",
                if is_endless { "any amount".to_owned() } else { bytes(*buffer_bytes) },
                if is_endless { "without bound".to_owned() } else { bytes(*need_bytes) },
                available(room)
            );
            if let (Some(max), Some(used)) = (max_memory_bytes, used_memory_bytes) {
                why += &format!(
                    "; maxmemory bounds the data to {}, now {}",
                    bytes(*max),
                    bytes(*used)
                );
            }
            match (is_ok, is_endless) {
                (true, _) => ("a full synchronisation fits", why, String::new()),
                (false, true) => (
                    "a slow replica's buffer has no bound",
                    why,
                    "set client-output-buffer-limit replica to a size that fits, so that a slow \
                     replica is disconnected instead"
                        .into(),
                ),
                (false, false) => (
                    "a full synchronisation may not fit",
                    why,
                    "lower client-output-buffer-limit replica, synchronise one replica at a time, or \
                     free memory first"
                        .into(),
                ),
            }
        }
        Finding::Cgroup { file, limit_bytes, free_bytes, need_bytes, is_hard } => {
            let why = format!(
                "{file} is {}, of which {} are free or can be given up; copies and page tables take up to {}",
                bytes(*limit_bytes),
                bytes(*free_bytes),
                bytes(*need_bytes)
            );
            let least = limit_bytes.saturating_add(need_bytes.saturating_sub(*free_bytes));
            let help =
                format!("raise {file} to {least} or more, or fork while few pages are written");
            let what = match (is_ok, is_hard) {
                (true, _) => "all copies fit into the control group",
                (false, true) => "the OOM killer may end a process of the control group",
                (false, false) => "the kernel may slow the control group down",
            };
            (what, why, help)
        }
        Finding::Hugetlb { private_bytes, free_bytes } => {
            let why = format!(
                "{} are private pages of the hugetlb pool, which has {} free that nobody was promised",
                bytes(*private_bytes),
                bytes(*free_bytes)
            );
            let what = match is_ok {
                true => "the hugetlb pool holds all copies",
                false => "the child may be killed (SIGBUS) when the parent writes",
            };
            (
                what,
                why,
                "raise vm.nr_hugepages, or map these pages shared or with MADV_DONTFORK".into(),
            )
        }
        Finding::HiddenCgroup => (
            "limits of its control group are not known",
            "its group is outside of this container's".into(),
            "run this where its control group is mounted: on the host, or in its own container"
                .into(),
        ),
        Finding::LeftOut { not_inherited_bytes, wiped_bytes } => (
            "a part of the process is left out of fork",
            format!(
                "mappings of {} are not inherited (MADV_DONTFORK) and of {} are empty in the child \
                 (MADV_WIPEONFORK): neither is counted as copied",
                bytes(*not_inherited_bytes),
                bytes(*wiped_bytes)
            ),
            String::new(),
        ),
        Finding::Entries {
            entries,
            huge_bytes,
            huge_page_bytes,
            base_bytes,
            huge_pages_are_off,
        } => {
            let why = format!(
                "fork copies about {entries} page-table entries: {} are in huge pages of {}, {} in smaller \
                 ones; a write splits a huge page and copies one base page{}",
                bytes(*huge_bytes),
                size(*huge_page_bytes),
                bytes(*base_bytes),
                if *huge_pages_are_off {
                    "; huge pages are switched off for it (PR_SET_THP_DISABLE)"
                } else {
                    ""
                }
            );
            ("the stop at fork grows with the page-table entries", why, String::new())
        }
    };
    let what_to_do = if is_ok { String::new() } else { help };
    Worded { level, what: what.to_owned(), why, what_to_do }
}

fn available(room: &Room) -> String {
    format!("{} are available ({})", bytes(room.free_bytes), limit(room))
}

fn limit(room: &Room) -> String {
    match (&room.cgroup_file, room.swap_bytes) {
        (Some(file), _) => format!("below {file}"),
        (None, 0) => "MemAvailable".to_owned(),
        (None, swap) => format!("MemAvailable and {} of swap", bytes(swap)),
    }
}

pub fn by(source: Source) -> &'static str {
    match source {
        Source::Measured => "what was just measured",
        Source::Asked => "the server's own figures (INFO)",
        Source::Children => "what its living children have to themselves",
        Source::Calibrated => "this machine's profile",
        Source::Usual => USUAL_COSTS,
        Source::Assumed => "a guess",
    }
}

/// Whether the next fork fails, and whether its copies fit, in one sentence.
pub fn verdict(name: &str, pid: i32, verdict: &Verdict, copies_by: Source) -> String {
    let name = format!("{name} ({pid})");
    if verdict.level == Level::WillFail {
        let worst = worded(&verdict.findings[0], copies_by);
        return format!(
            "The next fork of {name} will fail: {}, because {}. {}.",
            worst.what,
            worst.why,
            capital(&worst.what_to_do)
        );
    }
    // What may refuse it must be known for a promise.
    let begin = match verdict.is_certain {
        false => {
            format!("The next fork of {name} is refused by nothing that can be seen from here")
        }
        true => format!("The next fork of {name} will not be refused"),
    };
    let pool = verdict.findings.iter().find(|one| matches!(one, Finding::Hugetlb { .. }));
    if let Some(pool) = pool.filter(|pool| pool.level() != Level::Ok) {
        let pool = worded(pool, copies_by);
        return format!("{begin}, but {}: {}. {}.", pool.what, pool.why, capital(&pool.what_to_do));
    }
    let worst = verdict.worst_case_bytes;
    let Some(room) = &verdict.room else {
        return format!("{begin}; how much memory is left for the copies is not known.");
    };
    let (most, available) = (bytes(worst), available(room));
    match verdict.expected_bytes {
        _ if worst <= room.free_bytes => {
            format!(
                "{begin}, and its copies fit: {most} if every page is written, where {available}."
            )
        }
        Some(need) if need <= room.free_bytes => format!(
            "{begin}, and the copies expected fit: {}, where {available}; if every page were written it \
             would be {most}, and the OOM killer could act.",
            bytes(need)
        ),
        Some(need) => format!(
            "{begin}, but the copies expected do not fit: {}, where {available}; the OOM killer may end a \
             process while the child lives.",
            bytes(need)
        ),
        None => format!(
            "{begin}, but its copies may not fit: {most} if every page is written, where {available}; the \
             OOM killer may act."
        ),
    }
}

pub fn stop(stop: &Amount) -> String {
    let [value, low, high] = [stop.value, stop.low, stop.high].map(time);
    match stop.source {
        Source::Measured if low == high => format!("{value}, as measured"),
        Source::Measured => format!("{value}, as measured ({low} to {high})"),
        Source::Asked => {
            format!("{value} at its last fork, as the server measured it (latest_fork_usec)")
        }
        source => format!("{value} ({low} to {high}), predicted by {}", by(source)),
    }
}

/// What is copied after a fork, with where that is from.
pub fn copies(copied: &Amount, verdict: &Verdict) -> String {
    let (value, most) = (bytes(copied.value as u64), bytes(verdict.worst_case_bytes));
    let known = match copied.source {
        Source::Measured => format!("{value} after each fork, as measured"),
        Source::Asked => {
            format!("{value} by its last save, as the server says (rdb_last_cow_size)")
        }
        Source::Children => {
            format!("{value} or more by half of its living children, copied or new")
        }
        _ => format!("not known; {value}, a tenth, is assumed for prices"),
    };
    format!("{known}; at most {most}")
}

/// The best remedy and its command, if it shortens the stop by a tenth: what `stop` takes.
pub fn remedy(
    costs: &Costs,
    (one, then): (&Advice, Forecast),
    target: &str,
    is_run: bool,
) -> Option<String> {
    let (left, stop) = (then.stop_ns.value / costs.stop_ns.value, time(then.stop_ns.value));
    let less = (1.0 - left) * 100.0;
    let how = match one.choice {
        Choice::Tend if !is_run => format!("{}, kept running,", Command::Tend.of(target)),
        Choice::Tend => Command::Tend.of("NAME"),
        _ => {
            let tables = if is_run { Command::PredictTables } else { Command::ExplainTables };
            format!("{} ({} says how)", capital(&one.what), tables.of(target))
        }
    };
    match left < 0.9 {
        true => Some(format!("{how} would make the stop {stop}, {less:.0}% less.")),
        false => {
            let now = costs.now()?;
            let less = (1.0 - then.writes_ns.value / now.writes_ns.value) * 100.0;
            (less >= 10.0).then(|| {
                let writes = time(then.writes_ns.value);
                format!("{how} would make the writes cost {writes}, {less:.0}% less, and would not shorten the stop.")
            })
        }
    }
}
