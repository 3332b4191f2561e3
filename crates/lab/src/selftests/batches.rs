// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tests of the list as batches for a guest: the same tests under each policy.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cowlab_machine::Policy;
use cowlab_machine::policy::settings as machine_settings;

use super::list::{List, Only, Test};
use crate::testing::{self, Batch};

/// How many pages a process copies before a guess takes one more; 0: none.
const PRECOPY_RAMP: &str = "proc/sys/vm/cow_precopy_ramp";

const RUN_TEST: &[u8] = include_bytes!("../../guest/run-test.sh");

/// What the batches are made for.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    pub programs: &'a Path,
    /// The guest's folder, on the host.
    pub folder: &'a Path,
    /// This cowlab, for tests that are benches of its own.
    pub cowlab: &'a Path,
    /// Whether the kernel has upstream's steps.
    pub upstream: bool,
    /// The policies; none for a kernel that has none.
    pub policies: &'a [Policy],
    pub stress_s: u64,
}

/// The policy's settings as the guest's script takes them: FILE=VALUE. Whatever the policy, the
/// first guess of a process takes all the pages that it may, or short tests would test little.
fn settings(policy: &Policy) -> String {
    let word = |(file, value): (&str, u32)| format!("/{file}={value}");
    let settings = machine_settings(*policy).into_iter().chain([(PRECOPY_RAMP, 0)]);
    settings.map(word).collect::<Vec<_>>().join(" ")
}

pub fn batches(list: &List, tests: &[&Test], order: &Order<'_>) -> Result<Vec<Batch>> {
    fs::create_dir_all(order.folder)?;
    let script = order.folder.join("run-test");
    fs::write(&script, RUN_TEST).with_context(|| format!("cannot write {}", script.display()))?;
    let values = |policy: Option<&Policy>| -> Vec<(&str, OsString)> {
        vec![
            ("PROGRAMS", order.programs.into()),
            ("COWLAB", order.cowlab.into()),
            ("STRESS_S", order.stress_s.to_string().into()),
            ("HUGETLB_PAGES", list.guest.hugetlb_pages.to_string().into()),
            ("SWAP_MIB", list.guest.swap_mib.to_string().into()),
            ("SETTINGS", policy.map_or(String::new(), settings).into()),
        ]
    };
    let of = |number: usize, policy: Option<&Policy>| {
        let wanted = tests.iter().filter(|test| match test.only {
            Some(Only::Patched) => policy.is_some() && number == 0,
            Some(Only::Upstream) => order.upstream && number == 0,
            None => true,
        });
        let mut begin = vec![OsString::from("env")];
        for (name, value) in values(policy) {
            let mut word = OsString::from(name);
            word.push("=");
            word.push(value);
            begin.push(word);
        }
        begin.push("bash".into());
        begin.push(script.clone().into());
        let setup: Vec<String> =
            begin.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
        let test = |test: &&&Test| {
            let mut command = begin.clone();
            command.extend(["run".into(), OsString::from(&test.command)]);
            testing::Test {
                name: test.name.clone(),
                command,
                folder: None,
                limit_s: test.limit_s + if test.stress { order.stress_s } else { 0 },
            }
        };
        Batch {
            label: policy.map_or(String::new(), Policy::to_string),
            setup: format!("{} prepare", setup.join(" ")),
            tests: wanted.map(|wanted| test(&wanted)).collect(),
        }
    };
    Ok(match order.policies {
        [] => vec![of(0, None)],
        policies => policies.iter().enumerate().map(|(n, policy)| of(n, Some(policy))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = "'SETTINGS=/proc/sys/vm/cow_defer=0 /proc/sys/vm/cow_precopy_pages=16 \
                            /proc/sys/vm/cow_precopy_order=0 /proc/sys/vm/cow_precopy=1 \
                            /proc/sys/vm/cow_precopy_ramp=0'";

    #[test]
    fn tests_of_changed_kernels_run_there_and_once() {
        let list = List::parse(
            "left_out = []\n[build]\n[guest]\ncpus = 3\nmemory_mib = 1\nkernel_arguments = []\n\
             hugetlb_pages = 7\nswap_mib = 9\n\
             [[test]]\nname = 'a'\ncommand = \"sh -c 'exit 3'\"\nlimit_s = 5\n\
             [[test]]\nname = 'b'\ncommand = 'b'\nlimit_s = 5\nonly = 'patched'\n\
             [[test]]\nname = 'c'\ncommand = 'c'\nlimit_s = 5\nonly = 'upstream'\n",
        )
        .unwrap();
        let tests: Vec<&Test> = list.tests.iter().collect();
        let folder = tempfile::tempdir().unwrap();
        let policies = ["off".parse().unwrap(), "next:16".parse().unwrap()];
        let order = Order {
            programs: Path::new("/p"),
            folder: folder.path(),
            cowlab: Path::new("/c"),
            upstream: true,
            policies: &policies,
            stress_s: 0,
        };
        let names = |batch: &Batch| -> Vec<String> {
            batch.tests.iter().map(|test| test.name.clone()).collect()
        };
        let all = batches(&list, &tests, &order).unwrap();
        let expected = [vec!["mm/a", "mm/b", "mm/c"], vec!["mm/a"]];
        assert_eq!(all.iter().map(names).collect::<Vec<_>>(), expected);
        assert!(all[1].setup.contains(SETTINGS), "{}", all[1].setup);
        assert_eq!(all[1].tests[0].command.last().unwrap(), "sh -c 'exit 3'");
        let upstream = batches(&list, &tests, &Order { policies: &[], ..order }).unwrap();
        assert_eq!(upstream.iter().map(names).collect::<Vec<_>>(), [vec!["mm/a", "mm/c"]]);
        let plain = Order { policies: &[], upstream: false, ..order };
        let plain = batches(&list, &tests, &plain).unwrap();
        assert_eq!(plain.iter().map(names).collect::<Vec<_>>(), [vec!["mm/a"]]);
        assert!(plain[0].setup.contains("'SETTINGS='"), "{}", plain[0].setup);
    }
}
