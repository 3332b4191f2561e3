// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked of an observer, and which programs that takes.

use super::learn::{Anchor, Anchors, Learned};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Those given to [`super::Observer::watch`], and every process that they make.
    #[default]
    Chosen,
    Everything,
}

/// What is told of page faults, from the cheapest to the dearest;
/// docs/reference/watch.md has the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FaultMode {
    #[default]
    None,
    Count,
    /// The same, and writes to present pages by 2 MiB of address space.
    Regions,
    /// Each with its address, in the order in which they happened.
    Every,
    /// How many; and of writes to present pages those that copied, each or a share of them with the
    /// writer's stack ([`super::Observer::read_copies`]).
    Copies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObserverSettings {
    pub scope: Scope,
    /// Whether forks, exits and execs are told. Children join in only where they are.
    pub events: bool,
    /// By what the beginning of a fork is seen.
    pub anchors: Anchors,
    pub faults: FaultMode,
    /// In every-fault and copies mode, also the writes that the kernel makes for a process at its own
    /// addresses: where read(2) writes into a page that a fork shares, for one.
    pub kernel_faults: bool,
    /// Room for faults that wait to be read, in every-fault mode, on each CPU that may come to be. A
    /// fault takes 32 bytes; at 500,000 a second 2 MiB last 0.13 s.
    pub fault_ring_bytes: u32,
    /// Room for copies that wait to be read, in copies mode: a power of two. One takes its stack,
    /// 1 to 64 KiB.
    pub copies_bytes: u32,
    /// How many processes there is room for.
    pub processes: u32,
}

impl Default for ObserverSettings {
    fn default() -> Self {
        ObserverSettings {
            scope: Scope::Chosen,
            events: true,
            anchors: Anchors::All,
            faults: FaultMode::None,
            kernel_faults: false,
            fault_ring_bytes: 2 << 20,
            copies_bytes: 64 << 20,
            processes: 4096,
        }
    }
}

/// A program of observe.bpf.c and where it hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) tracepoint: &'static str,
}

const fn program(name: &'static str, tracepoint: &'static str) -> Program {
    Program { name, tracepoint }
}

/// The programs that `settings` takes. Without an anchor, the beginning of a fork cannot be seen, and
/// its program is left out.
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
    const FAULT: &str = "page_fault_user";
    match settings.faults {
        FaultMode::None => {}
        FaultMode::Count => wanted.push(program("count_faults", FAULT)),
        FaultMode::Regions => wanted.push(program("count_regions", FAULT)),
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
        for faults in [FaultMode::Count, FaultMode::Regions, FaultMode::Every] {
            let settings =
                ObserverSettings { events: false, faults, ..ObserverSettings::default() };
            assert_eq!(wanted(&settings, &learned).len(), 1);
        }
    }
}
