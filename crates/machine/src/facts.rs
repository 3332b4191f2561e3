// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts about the machine, read once.

use std::collections::BTreeMap;

use cowlab_store::{Accelerator, Environment};
use procfs_core::LoadAverage;
use procfs_core::process::{Limits, Status};
use serde::Serialize;

use crate::cgroup::{self, Cgroup};
use crate::cpu::{self, Cpu};
use crate::guest::{self, Guest};
use crate::limits::{self, Credentials, ResourceLimits, TaskLimits};
use crate::memory::{self, Memory, Overcommit};
use crate::policy::{self, CowSettings};
use crate::process::mappings;
use crate::root::{Reader, Root};
use crate::thp::{self, Thp};

/// The machine, and this process's place on it.
///
/// `Default` is a machine of which nothing is known; tests fill in what they decide on.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Empty if unknown.
    pub host: String,
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// Empty if unknown.
    pub kernel: String,
    pub page_size_bytes: u64,
    pub cpu: Cpu,
    pub memory: Option<Memory>,
    pub overcommit: Overcommit,
    /// `vm.max_map_count`: the most mappings that a process may have.
    pub max_map_count: Option<u64>,
    pub cgroup: Cgroup,
    pub limits: Option<ResourceLimits>,
    pub tasks: TaskLimits,
    pub credentials: Option<Credentials>,
    /// Transparent huge pages; `None` on a kernel without.
    pub thp: Option<Thp>,
    /// `/sys/kernel/mm/ksm/run`: 0 stopped, 1 merging, 2 undone; `None` on a kernel without KSM.
    pub ksm: Option<u64>,
    pub smaps_rollup: bool,
    /// Whether the kernel can report free pages to the hypervisor, which may take them back.
    pub page_reporting: bool,
    pub clocksource: Option<String>,
    pub mitigations: BTreeMap<String, String>,
    pub load_average: Option<f64>,
    /// The patched kernel's policies and counts.
    pub cow: CowSettings,
    pub guest: Guest,
    /// Files that exist but could not be read or understood, one sentence each.
    pub problems: Vec<String>,
}

impl Facts {
    /// Reads the facts below `root`. Never fails: what cannot be read is absent, and named in
    /// `problems`.
    pub fn probe(root: &Root) -> Facts {
        let owner = Reader::new(root);
        let reader = &owner;
        let load: Option<LoadAverage> = reader.parse("proc/loadavg");
        let status: Option<Status> = reader.parse("proc/self/status");
        let limits: Option<Limits> = reader.parse("proc/self/limits");
        let mut facts = Facts {
            host: reader.text("proc/sys/kernel/hostname").unwrap_or_default(),
            architecture: architecture(reader),
            kernel: reader.text("proc/sys/kernel/osrelease").unwrap_or_default(),
            page_size_bytes: page_size_bytes(reader),
            cpu: cpu::probe(reader),
            memory: memory::probe(reader),
            overcommit: memory::probe_overcommit(reader),
            max_map_count: reader.number("proc/sys/vm/max_map_count"),
            cgroup: cgroup::probe(reader, "self"),
            limits: limits.as_ref().map(ResourceLimits::from),
            tasks: limits::probe_tasks(reader, load.as_ref()),
            credentials: status.as_ref().map(Credentials::from),
            thp: thp::probe(reader, status.as_ref().and_then(|status| status.thp_enabled)),
            ksm: reader.number("sys/kernel/mm/ksm/run"),
            smaps_rollup: root.exists("proc/self/smaps_rollup"),
            page_reporting: root.exists("sys/module/page_reporting"),
            clocksource: reader
                .text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            mitigations: mitigations(reader),
            // The file has two decimals; those of a widened f32 would be noise.
            load_average: load.map(|load| (f64::from(load.one) * 100.0).round() / 100.0),
            cow: policy::probe(reader),
            guest: guest::probe(reader),
            problems: Vec::new(),
        };
        facts.problems = owner.into_problems();
        facts
    }

    /// What is stored with each run.
    pub fn environment(&self) -> Environment {
        let thp = self.thp.as_ref();
        Environment {
            host: self.host.clone(),
            architecture: self.architecture.clone(),
            cpu_model: self.cpu.model.clone(),
            cpus: self.cpu.allowed.len() as u32,
            hypervisor: self.cpu.hypervisor.clone(),
            kernel: self.kernel.clone(),
            page_size_bytes: self.page_size_bytes,
            memory_bytes: self.memory.as_ref().map(|memory| memory.total_bytes),
            thp_size_bytes: thp.and_then(|thp| thp.pmd_size_bytes),
            thp: thp.and_then(|thp| thp.enabled.clone()),
            mthp: thp.map(|thp| thp.sizes.clone()).unwrap_or_default(),
            mitigations: self.mitigations.clone(),
            overcommit_memory: self.overcommit.memory,
            clocksource: self.clocksource.clone(),
            load_average: self.load_average,
            accelerator: self.guest.accelerator.unwrap_or(Accelerator::Native),
            build: self.guest.build.clone(),
        }
    }

    /// Whether a hypervisor may reclaim free memory, which makes the next first touch slow.
    pub fn memory_may_be_taken_back(&self) -> bool {
        self.page_reporting && self.cpu.hypervisor.is_some()
    }
}

/// Of a saved tree without `kernel.arch` (before 6.1): what this program was built for.
fn architecture(reader: &Reader<'_>) -> String {
    if reader.root.is_live() {
        return rustix::system::uname().machine().to_string_lossy().into_owned();
    }
    reader.text("proc/sys/kernel/arch").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Of a saved tree: KernelPageSize of the first mapping, else this machine's.
fn page_size_bytes(reader: &Reader<'_>) -> u64 {
    let saved = || {
        let text = reader.root.read("proc/self/smaps").ok()??;
        mappings::decode(&text).ok()?.first()?.details.as_ref()?.page_size_bytes
    };
    let here = || rustix::param::page_size() as u64;
    if reader.root.is_live() { here() } else { saved().unwrap_or_else(here) }
}

fn mitigations(reader: &Reader<'_>) -> BTreeMap<String, String> {
    let folder = "sys/devices/system/cpu/vulnerabilities";
    let state = |name: String| Some((name.clone(), reader.text(&format!("{folder}/{name}"))?));
    reader.names(folder).into_iter().filter_map(state).collect()
}
