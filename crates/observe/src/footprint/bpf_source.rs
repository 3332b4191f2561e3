// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Write faults from BPF.

use std::collections::HashMap;

use super::faults::{Source, WriteFault};
use crate::bpf::{BpfError, FaultMode, Happening, Observer, Settings};

/// Of x86-64's error codes: the page was there, it was a write.
const PRESENT: u32 = 1;
const WRITE: u32 = 2;
/// Half a second of the fastest faults that a CPU makes.
const RING_BYTES: u32 = 32 << 20;

/// Faults of chosen processes and of what they fork, made by them or for them by the kernel.
pub struct BpfSource {
    observer: Observer,
    forked_ns: HashMap<i32, u64>,
    ended_ns: HashMap<i32, u64>,
}

impl BpfSource {
    /// Attaches. `follows`: children are watched from their first instruction on; else only those
    /// that are named.
    ///
    /// # Errors
    /// What is missing.
    pub fn attach(follows: bool) -> Result<BpfSource, BpfError> {
        let settings = Settings {
            events: follows,
            faults: FaultMode::Every,
            kernel_faults: true,
            fault_ring_bytes: RING_BYTES,
            ..Settings::default()
        };
        let observer = Observer::attach(settings)?;
        Ok(BpfSource { observer, forked_ns: HashMap::new(), ended_ns: HashMap::new() })
    }
}

impl Source for BpfSource {
    fn watch(&mut self, pid: i32) {
        // Too many, and the rest is not seen: the count of losses says so.
        let _ = self.observer.watch(pid as u32);
    }

    fn read(&mut self, take: &mut dyn FnMut(WriteFault)) {
        let (forked_ns, ended_ns) = (&mut self.forked_ns, &mut self.ended_ns);
        self.observer.read_events(|event| match event.what {
            Happening::Fork(fork) => {
                if let Some(child) = fork.child_tgid {
                    let began_ns = event.time_ns.saturating_sub(fork.stop_ns.unwrap_or(0));
                    forked_ns.insert(child as i32, began_ns);
                }
            }
            Happening::Exit => drop(ended_ns.insert(event.tgid as i32, event.time_ns)),
            Happening::Exec => {}
        });
        self.observer.read_faults(|fault| {
            if fault.error_code & WRITE != 0 {
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
        self.forked_ns.get(&child).copied()
    }

    fn ended_at(&self, child: i32) -> Option<u64> {
        self.ended_ns.get(&child).copied()
    }

    fn lost(&self) -> u64 {
        self.observer.lost().faults + self.observer.lost().processes
    }
}
