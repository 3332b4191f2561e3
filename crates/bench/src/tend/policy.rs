// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps the memory of a forking process in huge pages, or does not.

use cowlab_machine::thp::Thp;
use cowlab_machine::{Guard, Root};
pub use cowlab_schema::tend::Policy;

use crate::redis::server::HugePages;

/// The settings of huge pages.
const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// khugepaged as fast and as careful as it can be: it fills in no page, and looks without a pause at
/// as much as it can.
const KHUGEPAGED: [(&str, &str); 5] = [
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none", "0"),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_shared", "0"),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "100"),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs", "1000"),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", "65536"),
];

/// Pages of 64 KiB for whoever does not ask. Those of 2 MiB are for who asks, as before: the server does
/// not, so neither a fault nor khugepaged gives it any, and tend may.
const MTHP: [(&str, &str); 1] =
    [("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "always")];

/// Whether `cowlab tend` runs.
pub fn is_tended(policy: Policy) -> bool {
    matches!(policy, Policy::Tended | Policy::ThpTended | Policy::MthpTended)
}

/// How the server is started.
pub fn huge_pages(policy: Policy) -> HugePages {
    match policy {
        Policy::Thp | Policy::ThpTended | Policy::Khugepaged => HugePages::Asked,
        _ => HugePages::Allowed,
    }
}

/// Settings of the machine that it needs; empty for none.
pub fn settings(policy: Policy) -> &'static [(&'static str, &'static str)] {
    match policy {
        Policy::Mthp | Policy::MthpTended => &MTHP,
        Policy::Khugepaged => &KHUGEPAGED,
        _ => &[],
    }
}

/// Whether it can be had here, with or without the consent to change settings. An error says what
/// it needs.
pub fn usable(policy: Policy, root: &Root, may_set: bool) -> Result<(), String> {
    if policy == Policy::Damon {
        return Err(
            "damon needs a kernel that can watch virtual addresses (CONFIG_DAMON_VADDR) and \
             is not set up by this program: run its scheme by damo beside `--tending untended`"
                .into(),
        );
    }
    // A kernel without huge pages has base pages only.
    if let (HugePages::Allowed, Some(thp)) = (huge_pages(policy), Thp::read(root)) {
        begins_without_huge_pages(policy, &thp)?;
    }
    for (file, _) in settings(policy) {
        if !root.exists(file) {
            return Err(format!("{policy} needs a kernel with {file}"));
        }
    }
    if !settings(policy).is_empty() && !may_set {
        return Err(format!(
            "{policy} changes settings of this machine ({FOLDER}): give --set-mthp to allow that \
             for this run"
        ));
    }
    Ok(())
}

/// A server whose huge pages are allowed and not asked for has none only where no setting gives them
/// unasked.
fn begins_without_huge_pages(policy: Policy, thp: &Thp) -> Result<(), String> {
    let global = thp.enabled.as_deref().unwrap_or("not readable");
    let own = thp.pmd_size_bytes.and_then(|size| Some((size, thp.sizes.get(&size)?.as_str())));
    let (file, setting) = match own {
        Some((size, setting)) if setting != "inherit" => {
            (format!("{FOLDER}/hugepages-{}kB/enabled", size / 1024), setting)
        }
        // Before 6.8 there is no other.
        _ => (format!("{FOLDER}/enabled"), global),
    };
    if matches!(setting, "madvise" | "never") {
        return Ok(());
    }
    Err(format!(
        "{policy} begins without huge pages, but {file} is `{setting}`: write `madvise` into it"
    ))
}

/// Change the machine's settings for it.
pub fn set(policy: Policy, root: &Root) -> anyhow::Result<Guard> {
    Ok(Guard::set(root, settings(policy))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_pages_need_a_setting_that_gives_no_others_unasked() {
        const MIB2: u64 = 2 << 20;
        // global, setting of 2 MiB, the file that is refused
        for (global, pmd, file) in [
            (Some("madvise"), Some("inherit"), None),
            (Some("never"), Some("inherit"), None),
            (Some("always"), Some("inherit"), Some("hugepage/enabled is `always`")),
            (Some("always"), Some("madvise"), None),
            (Some("madvise"), Some("always"), Some("hugepages-2048kB/enabled is `always`")),
            (Some("madvise"), None, None),
            (Some("always"), None, Some("hugepage/enabled is `always`")),
            (None, None, Some("is `not readable`")),
        ] {
            let thp = Thp {
                enabled: global.map(str::to_owned),
                pmd_size_bytes: Some(MIB2),
                sizes: pmd.map(|setting| (MIB2, setting.to_owned())).into_iter().collect(),
                ..Thp::default()
            };
            let answer = begins_without_huge_pages(Policy::Untended, &thp);
            match (&answer, file) {
                (Ok(()), None) => {}
                (Err(text), Some(file)) => {
                    assert!(text.contains(file) && text.contains("write `madvise`"), "{text}");
                }
                _ => panic!("{global:?} {pmd:?}: {answer:?}"),
            }
        }
    }

    #[test]
    fn settings_are_changed_with_consent_only() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(usable(Policy::Tended, &root, false), Ok(()));
        assert!(usable(Policy::Mthp, &root, true).unwrap_err().contains("hugepages-64kB"));
        let settings = folder.path().join("sys/kernel/mm/transparent_hugepage/khugepaged");
        std::fs::create_dir_all(&settings).unwrap();
        for (file, _) in KHUGEPAGED {
            // Below the root of the test: joined as it is, it would be the machine's own file.
            std::fs::write(root.path(file), "1\n").unwrap();
        }
        std::fs::write(settings.with_file_name("enabled"), "[always] madvise never\n").unwrap();
        assert!(usable(Policy::Tended, &root, true).unwrap_err().contains("without huge pages"));
        assert!(usable(Policy::Khugepaged, &root, false).unwrap_err().contains("--set-mthp"));
        assert_eq!(usable(Policy::Khugepaged, &root, true), Ok(()));
        assert!(usable(Policy::Damon, &root, true).unwrap_err().contains("CONFIG_DAMON_VADDR"));
    }
}
