// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fork that defers page tables, as the patched kernel's `vm.cow_defer` does: each is marked in fork,
//! and copied before the parent first writes to one of its pages.

use serde::Serialize;

use super::{Predicted, Question, Unanswerable, fork_with_huge_pages, plus, predict, scaled};
use crate::profile::MachineProfile;

/// Entries of a page table (x86-64, the only architecture with deferral).
const TABLE_ENTRIES: u64 = 512;

/// The cost of marking a page table, and of recording that a fork deferred some, in copied entries: 114
/// and 3250 of 117 instructions, from forks of 0, 1 MiB and 1 GiB (docs/results/2026-11-defer.md).
pub(super) const MARK_ENTRIES: f64 = 0.98;
pub(super) const RECORD_ENTRIES: f64 = 28.0;

/// The cost of a deferred fork.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Deferred {
    /// The call.
    pub fork_ns: Predicted,
    /// The first write under a page table that is not copied yet.
    pub first_write_ns: Predicted,
    /// At most what the writes cost more: if the child copies none of their page tables before them.
    pub tables_ns: Predicted,
}

/// Predict a fork of `question`'s base pages: the kernel copies the entries of `kept_pages` in fork,
/// and never defers `huge_pages`. Fails as [`predict`] does if more pages are written than exist.
pub fn deferred(
    profile: &MachineProfile,
    question: &Question,
    kept_pages: u64,
    huge_pages: u64,
) -> Result<Deferred, Unanswerable> {
    let Question { pages, written, .. } = *question;
    let now = predict(profile, question)?;
    let of_pages = |pages: u64| Question {
        pages,
        written: written.min(pages),
        written_before: question.written_before.min(pages),
        ..*question
    };
    let empty = predict(profile, &of_pages(0))?.fork_ns;
    let one_write =
        predict(profile, &Question { written: written.max(1), ..of_pages(pages.max(1)) })?;

    let kept = kept_pages.min(pages);
    let tables = (pages - kept).div_ceil(TABLE_ENTRIES);
    let entry = (1.0 - empty.value / now.fork_ns.value) / pages.max(1) as f64;
    let entry = scaled(now.fork_ns, entry.max(0.0));
    let table = scaled(entry, (pages - kept).min(TABLE_ENTRIES) as f64);
    let packed = written.div_ceil(TABLE_ENTRIES);
    let written_tables = question.split_pages.unwrap_or(packed).max(packed).min(tables);
    let more = if tables == 0 { 0.0 } else { RECORD_ENTRIES + MARK_ENTRIES * tables as f64 };
    let stop = fork_with_huge_pages(profile, &of_pages(kept), huge_pages)?;
    Ok(Deferred {
        fork_ns: plus(stop, entry, more),
        first_write_ns: plus(scaled(one_write.write_ns, 1.0 / written.max(1) as f64), table, 1.0),
        tables_ns: scaled(table, written_tables as f64),
    })
}
