// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits on processes, and this process's credentials.

use procfs_core::LoadAverage;
use procfs_core::process::{LimitValue, Limits, Status};
use serde::Serialize;

use crate::root::{Reader, Root};

/// Bits of CapEff (capabilities(7)).
pub const CAP_DAC_READ_SEARCH: u32 = 2;
pub const CAP_SYS_PTRACE: u32 = 19;
pub const CAP_SYS_ADMIN: u32 = 21;
pub const CAP_SYS_NICE: u32 = 23;
/// Since Linux 5.8, as is CAP_BPF.
pub const CAP_PERFMON: u32 = 38;
pub const CAP_BPF: u32 = 39;
pub const CAP_SYS_RESOURCE: u32 = 24;

/// Soft resource limits (getrlimit(2)); in each field `None` is unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ResourceLimits {
    /// RLIMIT_NPROC: threads of the real user.
    pub processes: Option<u64>,
    /// RLIMIT_AS.
    pub address_space_bytes: Option<u64>,
    /// RLIMIT_DATA: private writable mappings of one process.
    pub data_bytes: Option<u64>,
    /// RLIMIT_NOFILE: file descriptors.
    pub open_files: Option<u64>,
}

/// Task limits of the machine, and its tasks now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TaskLimits {
    pub threads_max: Option<u64>,
    pub pid_max: Option<u64>,
    /// Threads on the machine now (the fourth field of `/proc/loadavg`).
    pub threads: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Credentials {
    pub euid: u32,
    /// CapEff: one bit a capability.
    pub capabilities: u64,
}

impl Credentials {
    /// This process's; without any rights if they cannot be read.
    pub fn of_self(root: &Root) -> Credentials {
        let status: Option<Status> = root.parse("proc/self/status").ok().flatten();
        status.as_ref().map_or_else(Credentials::default, Credentials::from)
    }

    pub fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }
}

impl From<&Limits> for ResourceLimits {
    fn from(limits: &Limits) -> Self {
        let value = |limit: LimitValue| match limit {
            LimitValue::Unlimited => None,
            LimitValue::Value(value) => Some(value),
        };
        ResourceLimits {
            processes: value(limits.max_processes.soft_limit),
            address_space_bytes: value(limits.max_address_space.soft_limit),
            data_bytes: value(limits.max_data_size.soft_limit),
            open_files: value(limits.max_open_files.soft_limit),
        }
    }
}

impl From<&Status> for Credentials {
    fn from(status: &Status) -> Self {
        Credentials { euid: status.euid, capabilities: status.capeff }
    }
}

pub(crate) fn probe_tasks(reader: &Reader<'_>, load: Option<&LoadAverage>) -> TaskLimits {
    TaskLimits {
        threads_max: reader.number("proc/sys/kernel/threads-max"),
        pid_max: reader.number("proc/sys/kernel/pid_max"),
        threads: load.map(|load| u64::from(load.max)),
    }
}
