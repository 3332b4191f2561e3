// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a measurement was made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a guest's instructions were executed; figures from TCG are labelled wherever shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    #[default]
    /// No emulation by cowlab: this machine's own kernel.
    Native,
    Kvm,
    /// A guest under QEMU's TCG: times are not hardware's.
    Tcg,
    /// The same with a clock that counts its instructions: there are no times at all.
    Icount,
}

/// How a guest's kernel was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelBuild {
    /// `plain`, `patched`, `debug`, `traced`.
    pub variant: String,
    /// The hash of everything that went into it.
    pub hash: Option<String>,
    /// Version of the source that was patched.
    pub source: Option<String>,
}

/// One machine and kernel. Absent facts are `None`, never an empty or zero value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The host's name (`uname -n`).
    pub host: String,
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    pub cpu_model: Option<String>,
    /// CPUs that this process may use.
    pub cpus: u32,
    /// The hypervisor that the CPU reports, or `None` on bare metal.
    pub hypervisor: Option<String>,
    /// `uname -r`.
    pub kernel: String,
    pub page_size_bytes: u64,
    pub memory_bytes: Option<u64>,
    /// Size of a PMD-mapped huge page; `None` on a kernel without THP.
    pub thp_size_bytes: Option<u64>,
    /// Setting of THP: `always`, `madvise`, `never`; `None` on a kernel without.
    pub thp: Option<String>,
    /// Setting of each (m)THP size, keyed by its size in bytes.
    pub mthp: BTreeMap<u64, String>,
    /// Each CPU vulnerability and the state of its mitigation.
    pub mitigations: BTreeMap<String, String>,
    /// `vm.overcommit_memory`.
    pub overcommit_memory: Option<u32>,
    pub clocksource: Option<String>,
    /// Load average over one minute when the run began: was the machine quiet?
    pub load_average: Option<f64>,
    pub accelerator: Accelerator,
    /// The kernel's build, of one that cowlab built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<KernelBuild>,
}

impl Environment {
    /// A fact by the name that it has in run.json, one within another behind a dot: `kernel`, `thp`,
    /// `mthp.65536`, `mitigations.meltdown`. `None` where it is not known.
    pub fn fact(&self, name: &str) -> Option<String> {
        let all = serde_json::to_value(self).ok()?;
        match name.split('.').try_fold(&all, |within, name| within.get(name))? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_have_the_names_of_run_json() {
        let of = Environment {
            kernel: "6.12".into(),
            cpus: 2,
            thp: Some("madvise".into()),
            mthp: [(65536, "never".into())].into(),
            ..Environment::default()
        };
        let told = ["kernel", "cpus", "thp", "mthp.65536", "accelerator"].map(|name| of.fact(name));
        let expected =
            ["6.12", "2", "madvise", "never", "native"].map(|fact| Some(fact.to_owned()));
        assert_eq!(told, expected);
        let absent = ["cpu_model", "mthp", "mthp.1", "kernel.x", "nothing", ""];
        assert_eq!(absent.map(|name| of.fact(name)), [const { None }; 6]);
    }
}
