// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transparent huge pages of every size: the settings, and whether a program can have them
//! (kernel: Documentation/admin-guide/mm/transhuge.rst).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::facts::Facts;
use crate::human;
use crate::root::{Reader, Root};

/// The folder of the settings.
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

/// The selected word of `always [madvise] never`; a single word is itself selected.
pub(crate) fn selected(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let bracketed = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let mut words = text.split_whitespace();
    let only = words.next().filter(|_| words.next().is_none());
    bracketed.or(only).filter(|word| !word.is_empty())
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

/// Whether this kernel has pages of that size, whatever their setting is.
pub fn exists(root: &Root, page_size_bytes: u64) -> bool {
    setting_file(root, page_size_bytes).is_some()
}

/// Can a program that calls madvise(MADV_HUGEPAGE) get pages of this size?
///
/// # Errors
/// Why not, with the file to change, the value to write and the flag that does both.
pub fn usable(facts: &Facts, page_size_bytes: u64) -> Result<(), String> {
    if page_size_bytes == facts.page_size_bytes {
        return Ok(());
    }
    let size = human::page_size(page_size_bytes);
    let Some(thp) = &facts.thp else {
        return Err(format!(
            "pages of {size} need a kernel with CONFIG_TRANSPARENT_HUGEPAGE; this one has none \
             (no {FOLDER})"
        ));
    };
    if thp.disabled_for_self == Some(true) {
        return Err(format!(
            "huge pages are switched off for this process and its children \
             (PR_SET_THP_DISABLE): start cowlab from a shell that did not inherit it to use pages \
             of {size}"
        ));
    }
    let switch_on = |file: String, now: &str| {
        Err(format!(
            "{file} is `{now}`: write `madvise` into it to use pages of {size}, or give \
             --set-mthp, which does so for the run and puts it back"
        ))
    };
    let own = || format!("{FOLDER}/hugepages-{}kB/enabled", page_size_bytes / 1024);
    let global = thp.enabled.as_deref().unwrap_or("not readable");
    let allows = |setting: &str| matches!(setting, "always" | "madvise");
    match thp.sizes.get(&page_size_bytes).map(String::as_str) {
        Some(setting) if allows(setting) => Ok(()),
        Some("inherit") if allows(global) => Ok(()),
        Some("inherit") => {
            switch_on(format!("{FOLDER}/enabled (which {} inherits)", own()), global)
        }
        Some(setting) => switch_on(own(), setting),
        None if thp.pmd_size_bytes == Some(page_size_bytes) && allows(global) => Ok(()),
        None if thp.pmd_size_bytes == Some(page_size_bytes) => {
            switch_on(format!("{FOLDER}/enabled"), global)
        }
        None => {
            let huge = thp.sizes.keys().chain(&thp.pmd_size_bytes);
            let mut sizes: Vec<u64> = huge.chain([&facts.page_size_bytes]).copied().collect();
            sizes.sort_unstable();
            sizes.dedup();
            let sizes: Vec<String> = sizes.into_iter().map(human::page_size).collect();
            Err(format!("this kernel has no pages of {size}: it has {}", sizes.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(enabled: &str, sizes: &[(u64, &str)], disabled: bool) -> Facts {
        let thp = Thp {
            enabled: Some(enabled.into()),
            pmd_size_bytes: Some(2 << 20),
            sizes: sizes.iter().map(|(size, setting)| (*size, (*setting).into())).collect(),
            disabled_for_self: Some(disabled),
            ..Thp::default()
        };
        Facts { page_size_bytes: 4096, thp: Some(thp), ..Facts::default() }
    }

    #[test]
    fn the_setting_of_a_size_decides_and_inherit_asks_the_global_one() {
        const MIB2: u64 = 2 << 20;
        const KIB64: u64 = 64 << 10;
        // global, setting of 2 MiB, setting of 64 KiB, size asked, part of the reason
        for (global, pmd, small, asked, reason) in [
            ("never", "never", "never", 4096, None),
            ("madvise", "inherit", "never", MIB2, None),
            ("always", "inherit", "never", MIB2, None),
            ("never", "madvise", "never", MIB2, None),
            ("never", "always", "never", MIB2, None),
            ("never", "inherit", "never", MIB2, Some("transparent_hugepage/enabled (which")),
            ("always", "never", "never", MIB2, Some("hugepages-2048kB/enabled is `never`")),
            ("madvise", "inherit", "never", KIB64, Some("hugepages-64kB/enabled is `never`")),
            ("never", "inherit", "madvise", KIB64, None),
            ("always", "inherit", "inherit", KIB64, None),
            ("always", "always", "always", 12288, Some("it has 4 KiB, 64 KiB, 2 MiB")),
            ("always", "always", "always", 0, Some("no pages of 0 bytes")),
        ] {
            let facts = facts(global, &[(MIB2, pmd), (KIB64, small)], false);
            let answer = usable(&facts, asked);
            match (&answer, reason) {
                (Ok(()), None) => {}
                (Err(text), Some(part)) => {
                    assert!(text.contains(part), "{text}");
                    let fixable = text.contains(" is `");
                    assert_eq!(fixable, text.contains("--set-mthp"), "{text}");
                }
                _ => panic!("{global} {pmd} {small} {asked}: {answer:?}"),
            }
        }
    }

    #[test]
    fn a_kernel_with_one_size_and_one_without_any() {
        assert_eq!(usable(&facts("madvise", &[], false), 2 << 20), Ok(()));
        assert!(usable(&facts("never", &[], false), 2 << 20).unwrap_err().contains("--set-mthp"));
        let reason = usable(&facts("always", &[], true), 2 << 20).unwrap_err();
        assert!(reason.contains("PR_SET_THP_DISABLE"), "{reason}");
        let none = Facts { page_size_bytes: 4096, ..Facts::default() };
        assert!(usable(&none, 2 << 20).unwrap_err().contains("CONFIG_TRANSPARENT_HUGEPAGE"));
    }

    #[test]
    fn the_selected_word_is_in_brackets_or_alone() {
        for (text, word) in [
            ("always [madvise] never\n", Some("madvise")),
            ("never\n", Some("never")),
            ("always madvise never", None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(selected(text), word, "{text:?}");
        }
    }
}
