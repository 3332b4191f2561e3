// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this machine can give a page size or a policy, and if not, what would help.

use cowlab_schema::fmt;
use cowlab_schema::{Command, Policy};

use crate::facts::Facts;
use crate::thp::FOLDER;

/// Whether a program that calls madvise(MADV_HUGEPAGE) gets pages of this size. An error names the file
/// to change, the value to write and the flag that does both.
pub fn page_size(facts: &Facts, page_size_bytes: u64) -> Result<(), String> {
    if page_size_bytes == facts.page_size_bytes {
        return Ok(());
    }
    let size = fmt::size(page_size_bytes);
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
    let given = |setting: &str| allows(setting) || setting == "inherit" && allows(global);
    let mut larger = thp.sizes.range(page_size_bytes + 1..);
    match thp.sizes.get(&page_size_bytes).map(String::as_str) {
        Some(setting) if given(setting) => match larger.find(|(_, setting)| given(setting)) {
            None => Ok(()),
            Some((larger, setting)) => Err(format!(
                "{FOLDER}/hugepages-{}kB/enabled is `{setting}`, and a program gets the largest pages \
                 that are enabled: write `never` into it to use pages of {size}, or give --set-mthp, \
                 which does so for the run and puts it back",
                larger / 1024
            )),
        },
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
            let sizes: Vec<String> = sizes.into_iter().map(fmt::size).collect();
            Err(format!("this kernel has no pages of {size}: it has {}", sizes.join(", ")))
        }
    }
}

/// Whether this kernel, and this user, can set the policy. An error says what would help.
pub fn policy(facts: &Facts, policy: Policy) -> Result<(), String> {
    let settings = &facts.cow;
    let lacks = |name: &str| {
        format!(
            "--policy {policy}: this kernel has no {name}: boot the patched one with `{}`, or use \
             --policy off",
            Command::KernelBoot
        )
    };
    match policy {
        Policy::Stock => return Ok(()),
        Policy::Off if settings.precopy.unwrap_or(0) + settings.defer.unwrap_or(0) == 0 => {
            return Ok(());
        }
        Policy::Off => {}
        _ if settings.precopy.is_none() => return Err(lacks("vm.cow_precopy")),
        Policy::Coverage | Policy::CoverageOf(..) if settings.threshold_pct.is_none() => {
            return Err(lacks("vm.cow_threshold_pct"));
        }
        Policy::Defer if settings.defer.is_none() => return Err(lacks("vm.cow_defer")),
        Policy::Next(2..) if settings.precopy_pages.is_none() => {
            return Err(lacks("vm.cow_precopy_pages"));
        }
        _ => {}
    }
    match &facts.credentials {
        Some(own) if own.euid == 0 => Ok(()),
        _ => Err(format!("--policy {policy}: changing the kernel's settings needs root")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Credentials;
    use crate::policy::CowSettings;
    use crate::thp::Thp;

    fn with_sizes(enabled: &str, sizes: &[(u64, &str)], disabled: bool) -> Facts {
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
            ("always", "never", "inherit", KIB64, None),
            ("always", "inherit", "inherit", KIB64, Some("hugepages-2048kB/enabled is `inherit`")),
            ("never", "madvise", "always", KIB64, Some("hugepages-2048kB/enabled is `madvise`")),
            ("always", "always", "always", 12288, Some("it has 4 KiB, 64 KiB, 2 MiB")),
            ("always", "always", "always", 0, Some("no pages of 0 B")),
        ] {
            let facts = with_sizes(global, &[(MIB2, pmd), (KIB64, small)], false);
            let answer = page_size(&facts, asked);
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
        assert_eq!(page_size(&with_sizes("madvise", &[], false), 2 << 20), Ok(()));
        assert!(
            page_size(&with_sizes("never", &[], false), 2 << 20)
                .unwrap_err()
                .contains("--set-mthp")
        );
        let reason = page_size(&with_sizes("always", &[], true), 2 << 20).unwrap_err();
        assert!(reason.contains("PR_SET_THP_DISABLE"), "{reason}");
        let none = Facts { page_size_bytes: 4096, ..Facts::default() };
        assert!(page_size(&none, 2 << 20).unwrap_err().contains("CONFIG_TRANSPARENT_HUGEPAGE"));
    }

    fn with_policies(precopy: Option<u64>, pages: Option<u64>, euid: u32) -> Facts {
        let credentials = Credentials { euid, ..Credentials::default() };
        let cow = CowSettings { precopy, precopy_pages: pages, ..CowSettings::default() };
        Facts { credentials: Some(credentials), cow, ..Facts::default() }
    }

    #[test]
    fn a_policy_needs_its_setting_and_root() {
        let stock = with_policies(None, None, 0);
        assert_eq!(policy(&stock, Policy::Off), Ok(()));
        let error = policy(&stock, Policy::Next(1)).unwrap_err();
        assert!(error.contains("no vm.cow_precopy:") && error.contains("kernel boot"), "{error}");
        let shallow = with_policies(Some(0), None, 0);
        assert_eq!(policy(&shallow, Policy::Next(1)), Ok(()));
        assert!(policy(&shallow, Policy::Next(2)).unwrap_err().contains("cow_precopy_pages"));
        let coverage = policy(&with_policies(Some(0), Some(1), 0), Policy::Coverage);
        assert!(coverage.unwrap_err().contains("cow_threshold_pct"));
        let defer = policy(&with_policies(Some(0), Some(1), 0), Policy::Defer);
        assert!(defer.unwrap_err().contains("no vm.cow_defer:"));
        let user = with_policies(Some(0), Some(1), 1000);
        assert_eq!(policy(&user, Policy::Off), Ok(()));
        assert!(policy(&user, Policy::Next(1)).unwrap_err().contains("needs root"));
        assert!(policy(&with_policies(Some(1), Some(1), 1000), Policy::Off).is_err());
    }
}
