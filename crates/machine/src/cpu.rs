// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPUs: which ones this process may use, and what they are.

use procfs_core::CpuInfo;
use procfs_core::process::Status;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use crate::root::{Reader, Root};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// The CPUs that this process may use, ascending.
    pub allowed: Vec<u32>,
    pub model: Option<String>,
    /// `None` if the architecture does not say.
    pub virtual_machine: Option<bool>,
    /// Or the firmware's vendor if the hypervisor has no name.
    pub hypervisor: Option<String>,
}

/// The CPUs that this process may use, ascending (sched_getaffinity(2)). For a saved tree, and on
/// machines with more CPUs than the system call's set holds, `Cpus_allowed_list` of
/// `/proc/self/status`. Empty if neither is known.
pub fn allowed(root: &Root) -> Vec<u32> {
    if root.is_live()
        && let Ok(set) = sched_getaffinity(None)
    {
        return (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect();
    }
    let status: Option<Status> = root.parse("proc/self/status").ok().flatten();
    let ranges = status.and_then(|status| status.cpus_allowed_list).unwrap_or_default();
    ranges.into_iter().flat_map(|(first, last)| first..=last).collect()
}

pub(crate) fn probe(reader: &Reader<'_>) -> Cpu {
    let info: Option<CpuInfo> = reader.parse("proc/cpuinfo");
    let field = |name: &str| info.as_ref()?.get_field(0, name).map(str::to_owned);
    let virtual_machine =
        field("flags").map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let named = || {
        let device_tree = "proc/device-tree/hypervisor/compatible";
        let vendor = "sys/class/dmi/id/sys_vendor";
        ["sys/hypervisor/type", device_tree]
            .iter()
            .chain((virtual_machine == Some(true)).then_some(&vendor))
            .find_map(|file| reader.text(file))
            .map(|name| name.trim_end_matches('\0').to_owned())
            .or_else(|| (virtual_machine == Some(true)).then(|| "unnamed".to_owned()))
    };
    Cpu {
        allowed: allowed(reader.root),
        model: field("model name"),
        virtual_machine,
        hypervisor: named(),
    }
}
