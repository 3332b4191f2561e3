// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be measured here, what cannot, and what would change that.

use cowlab_schema::{Policy, fmt};
use serde::Serialize;

use crate::facts::Facts;
use crate::limits::{
    CAP_BPF, CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_SYS_PTRACE,
};
use crate::usable;

/// One thing that cowlab can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capability {
    pub name: String,
    pub available: bool,
    /// What would make it available; `None` where it is.
    pub needs: Option<String>,
    pub used_for: &'static str,
}

impl Capability {
    fn new(name: impl Into<String>, used_for: &'static str, state: Result<(), String>) -> Self {
        Capability { name: name.into(), available: state.is_ok(), needs: state.err(), used_for }
    }
}

fn needs(there: bool, what: impl Into<String>) -> Result<(), String> {
    if there { Ok(()) } else { Err(what.into()) }
}

/// Every capability, in the doctor's order.
pub fn list(facts: &Facts) -> Vec<Capability> {
    let has = |capability| facts.credentials.as_ref().is_some_and(|own| own.has(capability));
    let cpus = facts.cpu.allowed.len();
    let mut found = vec![
        Capability::new("fork and copy-on-write timing", "study, calibrate, bench", Ok(())),
        Capability::new(
            "TLB flush of another thread",
            "calibrate (remote_flush_ns), bench --threads",
            needs(cpus >= 2, format!("2 CPUs at least; this process may use {cpus}: see taskset")),
        ),
    ];
    found.extend(pages(facts));
    found.extend([Policy::Next(1), Policy::Coverage].map(|policy| {
        let name = format!("copying ahead: policy {policy}");
        Capability::new(name, "bench --policy", usable::policy(facts, policy))
    }));
    found.extend([
        Capability::new(
            "changing a huge-page size for a run",
            "--set-mthp",
            needs(facts.thp.is_some(), "a kernel with CONFIG_TRANSPARENT_HUGEPAGE").and_then(
                |()| {
                    let is_root = facts.credentials.as_ref().is_some_and(|own| own.euid == 0);
                    needs(is_root, "root, as the settings in /sys are root's")
                },
            ),
        ),
        Capability::new(
            "smaps_rollup",
            "watch: memory of a process in one read",
            needs(facts.smaps_rollup, "a kernel with /proc/PID/smaps_rollup (4.14)"),
        ),
        Capability::new(
            "processes of other users",
            "footprint, watch, tend of a pid",
            needs(has(CAP_SYS_PTRACE), "root, or CAP_SYS_PTRACE; one's own processes work without"),
        ),
        Capability::new(
            "huge pages of other programs",
            "tend",
            needs(facts.thp.is_some(), "a kernel with CONFIG_TRANSPARENT_HUGEPAGE").and_then(
                |()| {
                    let all = [CAP_SYS_NICE, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH];
                    let what = "root, or CAP_SYS_NICE, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";
                    needs(all.into_iter().all(has), what)
                },
            ),
        ),
    ]);
    found.extend(quiet(facts));
    found
}

/// PMD-mapped huge pages, then the kernel's other sizes, grouped if the same holds.
fn pages(facts: &Facts) -> Vec<Capability> {
    const USED_FOR: &str = "bench --page-size-bytes, study";
    let Some(settings) = &facts.thp else {
        let state = usable::page_size(facts, 0);
        return vec![Capability::new("transparent huge pages", USED_FOR, state)];
    };
    let mut found: Vec<Capability> = Vec::new();
    if let Some(size) = settings.pmd_size_bytes {
        let name = format!("THP of {}", fmt::size(size));
        found.push(Capability::new(name, USED_FOR, usable::page_size(facts, size)));
    }
    for &size in settings.sizes.keys().filter(|size| Some(**size) != settings.pmd_size_bytes) {
        let words = fmt::size(size);
        let state = usable::page_size(facts, size).map_err(|reason| {
            let file = format!("hugepages-{}kB", size / 1024);
            reason.replace(&file, "hugepages-*kB").replace(&words, "that size")
        });
        let one = Capability::new(format!("mTHP of {words}"), USED_FOR, state);
        match found.last_mut() {
            Some(last) if last.name.starts_with("mTHP") && last.needs == one.needs => {
                last.name += &format!(", {words}");
            }
            _ => found.push(one),
        }
    }
    found
}

fn quiet(facts: &Facts) -> Vec<Capability> {
    const USED_FOR: &str = "every timing";
    let source = facts.clocksource.as_deref();
    let is_slow = source.is_some_and(|name| matches!(name, "hpet" | "acpi_pm" | "jiffies"));
    let cpus = facts.cpu.allowed.len() as f64;
    let load = facts.load_average;
    let is_quiet = load.is_some_and(|load| load < cpus.max(1.0) / 2.0);
    let now = load.map_or("not readable".to_owned(), |load| load.to_string());
    vec![
        Capability::new(
            "memory that stays with this machine",
            USED_FOR,
            needs(
                !facts.memory_may_be_taken_back(),
                "the hypervisor may take free memory back, and then a first touch costs several \
                 times as much: cowlab touches what a timed section needs just before it; free page \
                 reporting of the balloon is switched off on the host",
            ),
        ),
        Capability::new(
            "a quiet machine",
            USED_FOR,
            needs(is_quiet, format!("other work to end: the load average is {now}")),
        ),
        Capability::new(
            "a clock that is read without a system call",
            USED_FOR,
            needs(
                !is_slow,
                format!(
                    "another clock source than {}: see current_clocksource",
                    source.unwrap_or("")
                ),
            ),
        ),
        Capability::new(
            "pages that nobody merges",
            USED_FOR,
            needs(facts.ksm != Some(1), "KSM stopped: echo 0 > /sys/kernel/mm/ksm/run"),
        ),
        Capability::new(
            "perf and BPF for the whole machine",
            "observe",
            needs(
                facts.credentials.as_ref().is_some_and(|own| {
                    own.has(CAP_SYS_ADMIN) || own.has(CAP_BPF) && own.has(CAP_PERFMON)
                }),
                "root, or CAP_BPF and CAP_PERFMON",
            ),
        ),
    ]
}
