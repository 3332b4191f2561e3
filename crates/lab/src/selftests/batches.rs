// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tests of the list as batches for a guest: the same tests under each policy.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result};

use super::list::{List, Only, Test};
use crate::testing::{self, Batch};

/// Prepares a guest, and runs one test in it.
const RUN_TEST: &[u8] = include_bytes!("../../guest/run-test.sh");

/// A policy of the kernel by its name: `off`, `next`, `next:N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// vm.cow_precopy
    pub mode: u32,
    /// vm.cow_precopy_pages
    pub pages: u32,
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Policy, String> {
        let values = match name.split_once(':') {
            None if name == "off" => Some((0, 1)),
            None if name == "next" => Some((1, 1)),
            Some(("next", pages)) => {
                let pages = pages.parse().ok().filter(|pages| (1..=512).contains(pages));
                pages.map(|pages| (1, pages))
            }
            _ => None,
        };
        let (mode, pages) = values
            .ok_or(format!("no policy '{name}'; there are: off, next, next:1 to next:512"))?;
        Ok(Policy { name: name.to_owned(), mode, pages })
    }
}

/// What the batches are made for.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    /// The programs, on the host.
    pub programs: &'a Path,
    /// The guest's folder, on the host.
    pub folder: &'a Path,
    /// This cowlab, for tests that are benches of its own.
    pub cowlab: &'a Path,
    /// The policies; none for a kernel that has none.
    pub policies: &'a [Policy],
    /// How long stressors run.
    pub stress_s: u64,
}

/// A batch for each policy.
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
            ("MODE", policy.map_or(String::new(), |policy| policy.mode.to_string()).into()),
            ("PAGES", policy.map_or(1, |policy| policy.pages).to_string().into()),
        ]
    };
    let of = |number: usize, policy: Option<&Policy>| {
        let wanted = tests.iter().filter(|test| match test.only {
            Some(Only::Patched) => policy.is_some() && number == 0,
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
            label: policy.map_or(String::new(), |policy| policy.name.clone()),
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

    #[test]
    fn policies_are_the_kernels() {
        let values = |name: &str| name.parse().map(|policy: Policy| (policy.mode, policy.pages));
        assert_eq!(values("off"), Ok((0, 1)));
        assert_eq!(values("next"), Ok((1, 1)));
        assert_eq!(values("next:512"), Ok((1, 512)));
        for wrong in ["", "on", "next:", "next:0", "next:513", "off:1", "last:2"] {
            assert!(values(wrong).unwrap_err().contains("there are: off, next"), "{wrong}");
        }
    }

    #[test]
    fn tests_of_the_patched_kernel_run_there_and_once() {
        let list = List::parse(
            "left_out = []\n[build]\n[guest]\ncpus = 3\nmemory_mib = 1\nkernel_arguments = []\n\
             hugetlb_pages = 7\nswap_mib = 9\n\
             [[test]]\nname = 'a'\ncommand = \"sh -c 'exit 3'\"\nlimit_s = 5\n\
             [[test]]\nname = 'b'\ncommand = 'b'\nlimit_s = 5\nonly = 'patched'\n",
        )
        .unwrap();
        let tests: Vec<&Test> = list.tests.iter().collect();
        let folder = tempfile::tempdir().unwrap();
        let policies = ["off".parse().unwrap(), "next:16".parse().unwrap()];
        let order = Order {
            programs: Path::new("/p"),
            folder: folder.path(),
            cowlab: Path::new("/c"),
            policies: &policies,
            stress_s: 0,
        };
        let names = |batch: &Batch| -> Vec<String> {
            batch.tests.iter().map(|test| test.name.clone()).collect()
        };
        let all = batches(&list, &tests, &order).unwrap();
        assert_eq!(all.iter().map(names).collect::<Vec<_>>(), [vec!["a", "b"], vec!["a"]]);
        assert!(all[1].setup.contains("'MODE=1' 'PAGES=16'"), "{}", all[1].setup);
        assert_eq!(all[1].tests[0].command.last().unwrap(), "sh -c 'exit 3'");
        let plain = batches(&list, &tests, &Order { policies: &[], ..order }).unwrap();
        assert_eq!(plain.iter().map(names).collect::<Vec<_>>(), [vec!["a"]]);
        assert!(plain[0].setup.contains("'MODE='"), "{}", plain[0].setup);
    }
}
