// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Write faults from BPF.

use cowlab_machine::Stat;
use rustix::time::{ClockId, clock_gettime};

use super::births::Births;
use super::faults::{Source, WriteFault};
use crate::bpf::record::COWLAB_WRITE;
use crate::bpf::{BpfError, FaultMode, Observer, ObserverSettings, cpus};

/// Of x86-64's error codes: the page was there.
const PRESENT: u32 = 1;
/// The rings of all CPUs together, unless there are very many: each has room for what its CPU can do
/// between two looks.
const RINGS_BYTES: u32 = 64 << 20;
const LEAST_RING_BYTES: u32 = 2 << 20;

fn ring_bytes() -> Result<u32, BpfError> {
    let cpus = u32::try_from(cpus()?).unwrap_or(u32::MAX);
    Ok((RINGS_BYTES / cpus).max(LEAST_RING_BYTES))
}

/// Faults of chosen processes and of what they fork, made by them or for them by the kernel.
pub struct BpfSource {
    observer: Observer,
    births: Births,
    /// Processes that there was no room for.
    refused: u64,
    /// What a fault takes longer while it is watched: CPU time of whoever makes it.
    observing_ns: Option<f64>,
}

/// Memory of ours that is touched to learn that. The allocator maps as much anew each time.
const TRIED_BYTES: usize = 33 << 20;

/// CPU time of a fault of ours; `None` where huge pages make fewer faults than there are pages. The least of three:
/// the first meets memory that nobody has touched for long.
fn fault_ns() -> Option<f64> {
    let page = rustix::param::page_size();
    let cpu_ns = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let once = || {
        let (before_ns, faults) = (cpu_ns(), Stat::read("thread-self")?.minor_faults);
        let mut memory = vec![0u8; TRIED_BYTES];
        memory.iter_mut().step_by(page).for_each(|byte| *byte = 1);
        std::hint::black_box(&memory);
        let faults = Stat::read("thread-self")?.minor_faults - faults;
        let took_ns = cpu_ns() - before_ns;
        (faults as usize >= TRIED_BYTES / page).then(|| took_ns / faults as f64)
    };
    (0..3).filter_map(|_| once()).reduce(f64::min)
}

impl BpfSource {
    /// Attaches. `follows`: children are watched from their first instruction on; else only those
    /// that are named. An error says what is missing.
    pub fn attach(follows: bool) -> Result<BpfSource, BpfError> {
        let settings = ObserverSettings {
            events: follows,
            faults: FaultMode::Every,
            kernel_faults: true,
            fault_ring_bytes: ring_bytes()?,
            ..ObserverSettings::default()
        };
        let unwatched_ns = fault_ns();
        let mut observer = Observer::attach(settings)?;
        let own = std::process::id();
        observer.watch(own)?;
        let watched_ns = fault_ns();
        observer.forget(own);
        observer.read_faults(|_| {});
        observer.read_events(|_| {});
        let observing_ns = watched_ns.zip(unwatched_ns).map(|(with, without)| with - without);
        let observing_ns = observing_ns.filter(|ns| *ns > 0.0);
        Ok(BpfSource { observer, births: Births::default(), refused: 0, observing_ns })
    }
}

impl Source for BpfSource {
    fn watch(&mut self, pid: i32) {
        // Too many, and the rest is not seen: the count of losses says so.
        self.refused += u64::from(self.observer.watch(pid as u32).is_err());
    }

    fn forget(&mut self, pid: i32) {
        self.observer.forget(pid as u32);
    }

    fn read(&mut self, take: &mut dyn FnMut(WriteFault)) {
        self.observer.read_events(|event| self.births.take(&event));
        self.observer.read_faults(|fault| {
            if fault.error_code & COWLAB_WRITE != 0 {
                take(WriteFault {
                    time_ns: fault.time_ns,
                    address: fault.address,
                    pid: fault.tgid as i32,
                    was_present: fault.error_code & PRESENT != 0,
                });
            }
        });
    }

    fn forked_at(&self, child: i32) -> Option<u64> {
        self.births.forked_at(child)
    }

    fn ended_at(&self, child: i32) -> Option<u64> {
        self.births.ended_at(child)
    }

    fn take_gone(&mut self, now_ns: u64) -> Vec<i32> {
        let gone = self.births.take_gone(now_ns);
        gone.iter().for_each(|pid| self.observer.forget(*pid as u32));
        gone
    }

    fn asked_since(&self, now_ns: u64) -> Option<u64> {
        let sees_forks = self.observer.settings().events
            && self.observer.learned().tgid_offset.is_some()
            && self.observer.lost().events == 0;
        sees_forks.then(|| self.births.asked_since(now_ns))
    }

    fn settle(&mut self) {
        self.births.settle();
    }

    fn observing_ns(&self) -> Option<f64> {
        self.observing_ns
    }

    fn lost(&self) -> u64 {
        let lost = self.observer.lost();
        lost.faults + lost.processes + self.refused
    }
}
