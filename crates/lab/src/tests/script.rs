// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shell script that runs tests in the guest.

use std::fmt::Write as _;
use std::path::Path;

use super::list::{Guest, Test};

/// What every guest gets before its first test, and the function that runs one.
const HEAD: &str = include_str!("../../guest/tests.sh");

/// A policy by its name: `off`, `next`, `next:N`. The sysctls' values.
pub fn sysctls(policy: &str) -> Option<(u32, u32)> {
    match policy.split_once(':') {
        None if policy == "off" => Some((0, 1)),
        None if policy == "next" => Some((1, 1)),
        Some(("next", pages)) => {
            pages.parse().ok().filter(|pages| (1..=512).contains(pages)).map(|pages| (1, pages))
        }
        _ => None,
    }
}

/// What a script is made for.
pub struct Order<'a> {
    /// The programs, on the host.
    pub programs: &'a Path,
    /// Where results go, on the host.
    pub folder: &'a Path,
    /// This cowlab, for tests that are benches of its own.
    pub cowlab: &'a Path,
    /// The policy; `None` on a kernel that has none.
    pub policy: Option<&'a str>,
    /// How long stressors run.
    pub stress_s: u64,
}

/// The script. Policies and names were checked; paths hold no quotes, since a guest's may not.
pub fn script(guest: &Guest, tests: &[&Test], order: &Order<'_>) -> String {
    let mut text = String::from(HEAD);
    let Order { programs, folder, cowlab, .. } = order;
    let (mode, pages) = order.policy.and_then(sysctls).map_or((String::new(), 1), |(mode, pages)| {
        (mode.to_string(), pages)
    });
    // A String takes whatever is written to it.
    let _ = write!(
        text,
        "PROGRAMS='{}' RESULTS='{}' COWLAB='{}' STRESS_S={}\n\
         HUGETLB_PAGES={} SWAP_MIB={} MODE={mode} PAGES={pages}\n\
         export COWLAB STRESS_S\nprepare\n",
        programs.display(),
        folder.display(),
        cowlab.display(),
        order.stress_s,
        guest.hugetlb_pages,
        guest.swap_mib
    );
    for test in tests {
        let command = test.command.replace('\'', "'\\''");
        let limit = limit_s(test, order.stress_s);
        let _ = writeln!(text, "run_test {} {limit} '{command}'", test.name);
    }
    text
}

/// When a test is killed: a stressor's own time comes on top.
pub fn limit_s(test: &Test, stress_s: u64) -> u64 {
    test.limit_s + if test.stress { stress_s } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_the_kernels() {
        assert_eq!(sysctls("off"), Some((0, 1)));
        assert_eq!(sysctls("next"), Some((1, 1)));
        assert_eq!(sysctls("next:512"), Some((1, 512)));
        for wrong in ["", "on", "next:", "next:0", "next:513", "off:1", "last:2"] {
            assert_eq!(sysctls(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_command_reaches_the_shell_as_it_is() {
        let test: Test = toml::from_str("name = 'a'\ncommand = \"sh -c 'exit 3'\"\nlimit_s = 5").unwrap();
        let guest = Guest {
            cpus: 1,
            memory_mib: 1,
            kernel_arguments: Vec::new(),
            hugetlb_pages: 7,
            swap_mib: 9,
        };
        let order = Order {
            programs: Path::new("/p"),
            folder: Path::new("/f"),
            cowlab: Path::new("/c"),
            policy: Some("next:16"),
            stress_s: 0,
        };
        let text = script(&guest, &[&test], &order);
        assert!(text.contains("MODE=1 PAGES=16\n"), "{text}");
        assert!(text.ends_with("run_test a 5 'sh -c '\\''exit 3'\\'''\n"), "{text}");
        let off = script(&guest, &[&test], &Order { policy: None, ..order });
        assert!(off.contains("MODE= PAGES=1\n"), "{off}");
    }
}
