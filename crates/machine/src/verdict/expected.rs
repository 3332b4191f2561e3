// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The copies that are expected, beside the worst case, and the verdict in one sentence.

use cowlab_schema::fmt::{bytes, capital};
use serde::Serialize;

use super::{Finding, Level, Verdict, finding};
use crate::facts::Facts;
use crate::process::ProcessFacts;

/// What the writes after a fork are known to copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// Bytes of pages that are copied while a child lives.
    pub copied_bytes: u64,
    /// Where that is from: `the footprint of RUN`, `rdb_last_cow_size`.
    pub source: String,
}

/// What Redis says of its replication (INFO, CONFIG GET); `None` where it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replication {
    /// rdb_last_cow_size: copied during the last snapshot.
    pub last_cow_bytes: Option<u64>,
    /// connected_slaves.
    pub replicas: Option<u64>,
    /// Of client-output-buffer-limit's class replica the hard limit; 0 is none.
    pub replica_buffer_bytes: Option<u64>,
    /// repl-diskless-sync.
    pub diskless: Option<bool>,
    /// maxmemory; 0 is none.
    pub max_memory_bytes: Option<u64>,
    /// used_memory.
    pub used_memory_bytes: Option<u64>,
}

/// Room that copies have, and what sets it.
fn room(facts: &Facts, process: &ProcessFacts) -> Option<(u64, String)> {
    let machine = facts.memory.as_ref().map(|memory| {
        let available = memory.available_bytes.unwrap_or(memory.free_bytes);
        let swap = memory.swap_free_bytes;
        let name = match swap {
            0 => "MemAvailable".to_owned(),
            swap => format!("MemAvailable and {} of swap", bytes(swap)),
        };
        (available.saturating_add(swap), name)
    });
    let group = process.cgroup.tightest_max();
    let group = group.map(|bound| (bound.free_bytes(), format!("below {}", bound.file)));
    machine.into_iter().chain(group).min_by_key(|(free, _)| *free)
}

/// The copies that are expected, against the least room there is.
pub(super) fn copies(
    facts: &Facts,
    process: &ProcessFacts,
    expected: &Expected,
    tables_bytes: u64,
) -> Option<Finding> {
    let (free, what) = room(facts, process)?;
    let need = expected.copied_bytes.saturating_add(tables_bytes);
    let why = format!(
        "by {} {} are copied while the child lives, with the page tables {}; {} are available ({what})",
        expected.source,
        bytes(expected.copied_bytes),
        bytes(need),
        bytes(free)
    );
    Some(if need <= free {
        finding(Level::Ok, "the copies expected fit", why, "")
    } else {
        let help = format!(
            "free {} or raise the limit before the next fork, or fork while fewer pages are written",
            bytes(need - free)
        );
        finding(Level::Warning, "the copies expected do not fit", why, help)
    })
}

/// A full synchronisation forks as a snapshot does, and keeps what is written meanwhile for each
/// replica in a buffer as well.
pub(super) fn full_synchronisation(
    facts: &Facts,
    process: &ProcessFacts,
    of: &Replication,
    copied_bytes: u64,
) -> Option<Finding> {
    let (free, what) = room(facts, process)?;
    // The replica that asks for it is one at least, connected or not.
    let replicas = of.replicas.unwrap_or(0).max(1);
    let way = match of.diskless {
        Some(true) => {
            "without a disk: the child lives, and pages are copied, until the slowest replica has \
             read it all"
        }
        Some(false) => "by a file: the child lives until that is written",
        None => "by a file or without a disk",
    };
    let limit = of.replica_buffer_bytes?;
    let buffers = limit.saturating_mul(replicas);
    let need = copied_bytes.saturating_add(buffers);
    let mut why = format!(
        "a full synchronisation is {way}; {replicas} replica(s) may hold {} of output each \
         (client-output-buffer-limit), with the copies {}; {} are available ({what})",
        if limit == 0 { "any amount".to_owned() } else { bytes(limit) },
        if limit == 0 { "without bound".to_owned() } else { bytes(need) },
        bytes(free)
    );
    if let (Some(max @ 1..), Some(used)) = (of.max_memory_bytes, of.used_memory_bytes) {
        why += &format!("; maxmemory bounds the data to {}, now {}", bytes(max), bytes(used));
    }
    Some(if limit > 0 && need <= free {
        finding(Level::Ok, "a full synchronisation fits", why, "")
    } else if limit == 0 {
        let help = "set client-output-buffer-limit replica to a size that fits, so that a slow \
                    replica is disconnected instead";
        finding(Level::Warning, "a slow replica's buffer has no bound", why, help)
    } else {
        let help = "lower client-output-buffer-limit replica, synchronise one replica at a time, or \
                    free memory first";
        finding(Level::Warning, "a full synchronisation may not fit", why, help)
    })
}

/// The verdict in one sentence.
pub(super) fn sentence(
    facts: &Facts,
    process: &ProcessFacts,
    verdict: &Verdict,
    expected: Option<&Expected>,
) -> String {
    let name = format!("{} ({})", process.name, process.pid);
    if let Some(worst) = verdict.findings.iter().find(|one| one.level == Level::WillFail) {
        return format!(
            "The next fork of {name} will fail: {}, because {}. {}.",
            worst.what,
            worst.why,
            capital(&worst.what_to_do)
        );
    }
    // What may refuse it must be known for a promise.
    let unknown =
        facts.overcommit.memory.is_none() || facts.memory.is_none() || process.cgroup.is_hidden;
    let begin = match unknown {
        true => format!("The next fork of {name} is refused by nothing that can be seen from here"),
        false => format!("The next fork of {name} will not be refused"),
    };
    let worst = verdict.worst_case_bytes;
    let Some((free, what)) = room(facts, process) else {
        return format!("{begin}; how much memory is left for the copies is not known.");
    };
    let needs = expected.map(|of| of.copied_bytes.saturating_add(verdict.page_table_bytes));
    match needs {
        _ if worst <= free => format!(
            "{begin}, and its copies fit: {} if every page is written, where {} are available ({what}).",
            bytes(worst),
            bytes(free)
        ),
        Some(need) if need <= free => format!(
            "{begin}, and the copies expected fit: {}, where {} are available ({what}); if \
             every page were written it would be {}, and the OOM killer could act.",
            bytes(need),
            bytes(free),
            bytes(worst)
        ),
        Some(need) => format!(
            "{begin}, but the copies expected do not fit: {}, where {} are available ({what}); \
             the OOM killer may end a process while the child lives.",
            bytes(need),
            bytes(free)
        ),
        None => format!(
            "{begin}, but its copies may not fit: {} if every page is written, where {} are available \
             ({what}); the OOM killer may act.",
            bytes(worst),
            bytes(free)
        ),
    }
}
