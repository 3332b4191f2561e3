// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An observer's settings, and the programs that they need.

use super::learn::{Anchor, Anchors, Learned};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The processes given to [`super::Observer::watch`], and their descendants.
    #[default]
    Chosen,
    Everything,
}

/// What is recorded of page faults, cheapest first; docs/reference/watch.md has the costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FaultMode {
    #[default]
    None,
    Count,
    /// Each with its address, in order.
    Every,
    /// Counts; and of writes to present pages the copies, all or a sample of them, with the writer's
    /// stack ([`super::Observer::read_copies`]).
    Copies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObserverSettings {
    pub scope: Scope,
    /// Whether forks, exits and execs are recorded; without them children are not watched.
    pub events: bool,
    /// Whether signals that end a process are recorded as well.
    pub signals: bool,
    /// Whether system calls are counted by their numbers: that costs every call on the machine some ns.
    pub calls: bool,
    pub anchors: Anchors,
    pub faults: FaultMode,
    /// In every-fault and copies mode: also the kernel's writes at a process's addresses, for example
    /// when read(2) writes into a page that a fork shares.
    pub kernel_faults: bool,
    /// Room for waiting faults on each possible CPU, in every-fault mode. A fault takes 32 bytes; at
    /// 500,000 a second 2 MiB last 0.13 s.
    pub fault_ring_bytes: u32,
    /// Room for waiting copies, in copies mode: a power of two. A copy takes 1 to 64 KiB, with its
    /// stack.
    pub copies_bytes: u32,
    /// The most processes.
    pub processes: u32,
}

impl Default for ObserverSettings {
    fn default() -> Self {
        ObserverSettings {
            scope: Scope::Chosen,
            events: true,
            signals: false,
            calls: false,
            anchors: Anchors::All,
            faults: FaultMode::None,
            kernel_faults: false,
            fault_ring_bytes: 2 << 20,
            copies_bytes: 64 << 20,
            processes: 4096,
        }
    }
}

/// A program of observe.bpf.c and its tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) tracepoint: &'static str,
}

const fn program(name: &'static str, tracepoint: &'static str) -> Program {
    Program { name, tracepoint }
}

/// The programs for `settings`. Without an anchor the beginning of a fork cannot be seen, and its
/// program is left out.
pub(crate) fn wanted(settings: &ObserverSettings, learned: &Learned) -> Vec<Program> {
    let mut wanted = Vec::new();
    if settings.events {
        wanted.extend(learned.anchor.map(|anchor| match anchor {
            Anchor::Allocation(_) => program("fork_begins", "percpu_alloc_percpu"),
            Anchor::Locks => program("asks_for_lock", "mmap_lock_start_locking"),
        }));
        wanted.push(program("fork_ends", "task_newtask"));
        wanted.push(program("exits", "sched_process_exit"));
        wanted.push(program("execs", "sched_process_exec"));
    }
    if settings.signals {
        wanted.push(program("is_killed", "signal_deliver"));
    }
    if settings.calls {
        wanted.push(program("count_calls", "sys_enter"));
    }
    const FAULT: &str = "page_fault_user";
    match settings.faults {
        FaultMode::None => {}
        FaultMode::Count => wanted.push(program("count_faults", FAULT)),
        FaultMode::Every => wanted.push(program("every_fault", FAULT)),
        FaultMode::Copies => {
            wanted.push(program("mark_fault", FAULT));
            wanted.push(program("tell_allocation", "mm_page_alloc"));
        }
    }
    const KERNEL_FAULT: &str = "page_fault_kernel";
    match settings.faults {
        FaultMode::Every if settings.kernel_faults => {
            wanted.push(program("every_kernel_fault", KERNEL_FAULT));
        }
        FaultMode::Copies if settings.kernel_faults => {
            wanted.push(program("mark_kernel_fault", KERNEL_FAULT));
        }
        _ => {}
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_has_nothing_on_the_way_of_a_fault() {
        let learned = Learned { tgid_offset: Some(1), anchor: Some(Anchor::Locks) };
        let programs = wanted(&ObserverSettings::default(), &learned);
        assert!(programs.iter().all(|program| program.tracepoint != "page_fault_user"));
        assert_eq!(programs.len(), 4);
        let older = wanted(&ObserverSettings::default(), &Learned { anchor: None, ..learned });
        assert_eq!(older, programs[1..]);
    }

    #[test]
    fn one_program_sees_faults() {
        let learned = Learned::default();
        for faults in [FaultMode::Count, FaultMode::Every] {
            let settings =
                ObserverSettings { events: false, faults, ..ObserverSettings::default() };
            assert_eq!(wanted(&settings, &learned).len(), 1);
        }
    }
}
