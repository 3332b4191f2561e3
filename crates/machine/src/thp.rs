// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transparent huge pages of every size: the settings, and whether a program can have them
//! (kernel: Documentation/admin-guide/mm/transhuge.rst).

use std::collections::BTreeMap;

use cowlab_schema::fmt;
use serde::Serialize;

use crate::guard::{Guard, GuardError, selected};
use crate::root::{Reader, Root};

pub(crate) const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// The settings of transparent huge pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Thp {
    /// `enabled`: `always`, `madvise`, `never`.
    pub enabled: Option<String>,
    /// `defrag`.
    pub defrag: Option<String>,
    /// Size of a PMD-mapped huge page.
    pub pmd_size_bytes: Option<u64>,
    /// `hugepages-*kB/enabled` by size in bytes: `always`, `inherit`, `madvise`, `never`; empty on
    /// a kernel that knows one size only (before 6.8).
    pub sizes: BTreeMap<u64, String>,
    /// Whether this process may not have huge pages at all (PR_SET_THP_DISABLE of prctl(2)).
    pub disabled_for_self: Option<bool>,
}

impl Thp {
    /// Reads them; `None` on a kernel without.
    pub fn read(root: &Root) -> Option<Thp> {
        probe(&Reader::new(root), None)
    }
}

/// `None` on a kernel without transparent huge pages.
pub(crate) fn probe(reader: &Reader<'_>, self_may: Option<bool>) -> Option<Thp> {
    if !reader.root.exists(FOLDER) {
        return None;
    }
    let selection = |file: &str| Some(selected(&reader.text(&format!("{FOLDER}/{file}"))?)?.into());
    let size = |name: String| {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        Some((kib * 1024, selection(&format!("{name}/enabled"))?))
    };
    let asked = reader.root.is_live().then(rustix::thread::transparent_huge_pages_are_disabled);
    Some(Thp {
        enabled: selection("enabled"),
        defrag: selection("defrag"),
        pmd_size_bytes: reader.number(&format!("{FOLDER}/hpage_pmd_size")),
        sizes: reader.names(FOLDER).into_iter().filter_map(size).collect(),
        disabled_for_self: asked.and_then(Result::ok).or(self_may.map(|may| !may)),
    })
}

/// The file that decides on pages of one size; `None` where the kernel has no pages of that size.
pub(crate) fn setting_file(root: &Root, page_size_bytes: u64) -> Option<String> {
    let own = format!("{FOLDER}/hugepages-{}kB/enabled", page_size_bytes / 1024);
    if page_size_bytes.is_multiple_of(1024) && root.exists(&own) {
        return Some(own);
    }
    let pmd = root.read(&format!("{FOLDER}/hpage_pmd_size")).ok().flatten();
    let is_pmd = pmd.is_some_and(|text| text.trim().parse() == Ok(page_size_bytes));
    is_pmd.then(|| format!("{FOLDER}/enabled"))
}

/// Has pages of that size given to programs that ask for them (`madvise`) for as long as the value
/// lives, and no larger ones, which they would get instead; the caller has the user's consent
/// (`--set-mthp`). Changes nothing where it is so already, and keeps it so. After an error the
/// settings are as they were.
pub fn allow(root: &Root, page_size_bytes: u64) -> Result<Vec<Guard>, GuardError> {
    let file = setting_file(root, page_size_bytes)
        .ok_or_else(|| GuardError::NoSuchSize { size: fmt::size(page_size_bytes) })?;
    let mut guards = vec![Guard::ensure(root, &file, &["madvise", "always"])?];
    let sizes = Thp::read(root).map(|thp| thp.sizes).unwrap_or_default();
    for (larger, _) in sizes.range(page_size_bytes + 1..) {
        let file = format!("{FOLDER}/hugepages-{}kB/enabled", larger / 1024);
        guards.push(Guard::ensure(root, &file, &["never"])?);
    }
    Ok(guards)
}

/// Whether this kernel has pages of that size, whatever their setting is.
pub fn exists(root: &Root, page_size_bytes: u64) -> bool {
    setting_file(root, page_size_bytes).is_some()
}
