// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps the memory of a forking process in huge pages, or does not.

use std::fmt;
use std::str::FromStr;

use cowlab_machine::thp::Thp;
use cowlab_machine::{Guard, Root};

use crate::redis::server::HugePages;

/// One way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// 4 KiB pages, and nobody changes that.
    Untended,
    /// 4 KiB pages to begin with, and `cowlab tend`.
    Tended,
    /// The program asks for huge pages for all of its memory; nobody repairs them.
    Thp,
    /// The same, and `cowlab tend`.
    ThpTended,
    /// It asks, and gets pages of 64 KiB.
    Mthp,
    /// The same, and `cowlab tend`.
    MthpTended,
    /// It asks for huge pages, and the kernel's own thread repairs them as fast as it can.
    Khugepaged,
    /// A DAMON scheme that asks for huge pages.
    Damon,
}

/// All of them with their names on the command line.
pub const POLICIES: [(Policy, &str); 8] = [
    (Policy::Untended, "untended"),
    (Policy::Tended, "tended"),
    (Policy::Thp, "thp"),
    (Policy::ThpTended, "thp+tended"),
    (Policy::Mthp, "mthp"),
    (Policy::MthpTended, "mthp+tended"),
    (Policy::Khugepaged, "khugepaged"),
    (Policy::Damon, "damon"),
];

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = POLICIES.iter().find(|(policy, _)| policy == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let found = POLICIES.iter().find(|(_, name)| *name == text);
        found.map(|(policy, _)| *policy).ok_or_else(|| {
            let names: Vec<&str> = POLICIES.iter().map(|(_, name)| *name).collect();
            format!("'{text}' is not one of {}", names.join(", "))
        })
    }
}

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

impl Policy {
    /// Whether `cowlab tend` runs.
    pub fn is_tended(self) -> bool {
        matches!(self, Policy::Tended | Policy::ThpTended | Policy::MthpTended)
    }

    /// How the server is started.
    pub fn huge_pages(self) -> HugePages {
        match self {
            Policy::Thp | Policy::ThpTended | Policy::Khugepaged => HugePages::Asked,
            _ => HugePages::Allowed,
        }
    }

    /// Settings of the machine that it needs; empty for none.
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Policy::Mthp | Policy::MthpTended => &MTHP,
            Policy::Khugepaged => &KHUGEPAGED,
            _ => &[],
        }
    }

    /// Whether it can be had here, with or without the consent to change settings.
    ///
    /// # Errors
    /// What it needs.
    pub fn usable(self, root: &Root, may_set: bool) -> Result<(), String> {
        if self == Policy::Damon {
            return Err(
                "damon needs a kernel that can watch virtual addresses (CONFIG_DAMON_VADDR) and \
                 is not set up by this program: run its scheme by damo beside `--policy untended`"
                    .into(),
            );
        }
        // A kernel without huge pages has base pages only.
        if let (HugePages::Allowed, Some(thp)) = (self.huge_pages(), Thp::read(root)) {
            self.begins_without_huge_pages(&thp)?;
        }
        for (file, _) in self.settings() {
            if !root.exists(file) {
                return Err(format!("{self} needs a kernel with {file}"));
            }
        }
        if !self.settings().is_empty() && !may_set {
            return Err(format!(
                "{self} changes settings of this machine ({FOLDER}): give --set-mthp to allow that \
                 for this run"
            ));
        }
        Ok(())
    }

    /// A server whose huge pages are allowed and not asked for has none only where no setting gives them
    /// unasked.
    fn begins_without_huge_pages(self, thp: &Thp) -> Result<(), String> {
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
            "{self} begins without huge pages, but {file} is `{setting}`: write `madvise` into it"
        ))
    }

    /// Change the machine's settings for it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(self, root: &Root) -> anyhow::Result<Guard> {
        Ok(Guard::set(root, self.settings())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (policy, name) in POLICIES {
            assert_eq!((name.parse(), policy.to_string()), (Ok(policy), name.to_owned()));
        }
        assert!("fast".parse::<Policy>().unwrap_err().contains("thp+tended"));
    }

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
            let answer = Policy::Untended.begins_without_huge_pages(&thp);
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
        assert_eq!(Policy::Tended.usable(&root, false), Ok(()));
        assert!(Policy::Mthp.usable(&root, true).unwrap_err().contains("hugepages-64kB"));
        let settings = folder.path().join("sys/kernel/mm/transparent_hugepage/khugepaged");
        std::fs::create_dir_all(&settings).unwrap();
        for (file, _) in KHUGEPAGED {
            std::fs::write(settings.join(file.trim_start_matches("khugepaged/")), "1\n").unwrap();
        }
        std::fs::write(settings.with_file_name("enabled"), "[always] madvise never\n").unwrap();
        assert!(Policy::Tended.usable(&root, true).unwrap_err().contains("without huge pages"));
        assert!(Policy::Khugepaged.usable(&root, false).unwrap_err().contains("--set-mthp"));
        assert_eq!(Policy::Khugepaged.usable(&root, true), Ok(()));
        assert!(Policy::Damon.usable(&root, true).unwrap_err().contains("CONFIG_DAMON_VADDR"));
    }
}
