// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single faults: each CPU has a ring; here they are merged into one order.

use std::sync::atomic::Ordering;

use aya::maps::Map;
use cowlab_machine::SharedMemory;
use rustix::fd::{AsFd, BorrowedFd};

use super::decode::Fault;
use super::error::BpfError;
use super::record::{cowlab_fault, cowlab_ring};

const RECORD_BYTES: usize = size_of::<cowlab_fault>();

/// The rings of all CPUs, and faults that were read but come too early.
pub(super) struct FaultRings {
    /// Counts of written and taken records, by CPU.
    ends: SharedMemory,
    records: SharedMemory,
    cpus: usize,
    slots: u64,
    waiting: Vec<Fault>,
}

impl FaultRings {
    /// Maps two maps of observe.bpf.c, which must outlive this.
    pub(super) fn map(
        rings: &Map,
        faults: &Map,
        cpus: usize,
        slots: u32,
    ) -> Result<FaultRings, BpfError> {
        let map = |map: &Map, bytes| {
            SharedMemory::map(fd_of(map), bytes)
                .map_err(|error| BpfError::kernel("mapping the rings of faults", &error))
        };
        let ends = map(rings, cpus * size_of::<cowlab_ring>())?;
        let records = map(faults, cpus * slots as usize * RECORD_BYTES)?;
        let slots = u64::from(slots);
        Ok(FaultRings { ends, records, cpus, slots, waiting: Vec::new() })
    }

    /// Passes each fault recorded before the call to `take`, oldest first. A thread's faults keep their
    /// order, even if it moves between CPUs.
    ///
    /// The rings are read one after the other: a thread may have recorded a fault on a CPU that was
    /// read before, and the next one on a CPU that is read later. So all are read twice, and faults
    /// younger than the first pass wait for the next call.
    pub(super) fn read(&mut self, take: impl FnMut(Fault)) -> usize {
        self.take_rings();
        let until_ns = self.waiting.iter().map(|fault| fault.time_ns).max();
        self.take_rings();
        until_ns.map_or(0, |until_ns| self.give(until_ns, take))
    }

    /// Those up to a time, oldest first.
    fn give(&mut self, until_ns: u64, take: impl FnMut(Fault)) -> usize {
        self.waiting.sort_by_key(|fault| fault.time_ns);
        let count = self.waiting.partition_point(|fault| fault.time_ns <= until_ns);
        self.waiting.drain(..count).for_each(take);
        count
    }

    fn take_rings(&mut self) {
        for cpu in 0..self.cpus {
            self.take_ring(cpu);
        }
    }

    fn take_ring(&mut self, cpu: usize) {
        let ring = cpu * size_of::<cowlab_ring>();
        let written = self.ends.u64(ring + std::mem::offset_of!(cowlab_ring, written));
        let taken = self.ends.u64(ring + std::mem::offset_of!(cowlab_ring, taken));
        let (from, to) = (taken.load(Ordering::Relaxed), written.load(Ordering::Acquire));
        let mut bytes = [0; RECORD_BYTES];
        for number in from..to {
            let slot = cpu as u64 * self.slots + number % self.slots;
            self.records.read(slot as usize * RECORD_BYTES, &mut bytes);
            self.waiting.extend(Fault::decode(&bytes));
        }
        taken.store(to, Ordering::Release);
    }
}

fn fd_of(map: &Map) -> BorrowedFd<'_> {
    let Map::Array(data) = map else { unreachable!("observe.bpf.c has arrays there") };
    data.fd().as_fd()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use zerocopy::{FromZeros, IntoBytes};

    use super::*;

    /// Empty rings of two CPUs with four records each.
    fn rings() -> FaultRings {
        let (cpus, slots) = (2, 4);
        let map = |bytes: usize| {
            let file: File = tempfile::tempfile().unwrap();
            file.set_len(bytes as u64).unwrap();
            SharedMemory::map(&file, bytes).unwrap()
        };
        let ends = map(cpus * size_of::<cowlab_ring>());
        let records = map(cpus * slots * RECORD_BYTES);
        FaultRings { ends, records, cpus, slots: slots as u64, waiting: Vec::new() }
    }

    fn tell(rings: &FaultRings, cpu: usize, time_ns: u64) {
        let written = rings.ends.u64(cpu * size_of::<cowlab_ring>());
        let number = written.load(Ordering::Relaxed);
        let slot = cpu as u64 * rings.slots + number % rings.slots;
        let fault = cowlab_fault { time_ns, ..FromZeros::new_zeroed() };
        rings.records.write(slot as usize * RECORD_BYTES, fault.as_bytes());
        written.store(number + 1, Ordering::Release);
    }

    fn times(rings: &mut FaultRings) -> Vec<u64> {
        let mut times = Vec::new();
        let count = rings.read(|fault| times.push(fault.time_ns));
        assert_eq!(count, times.len());
        times
    }

    #[test]
    fn the_faults_of_all_cpus_come_in_one_order_and_once() {
        let mut rings = rings();
        assert!(times(&mut rings).is_empty());
        for (cpu, time_ns) in [(1, 2), (0, 1), (0, 4), (1, 3)] {
            tell(&rings, cpu, time_ns);
        }
        assert_eq!(times(&mut rings), [1, 2, 3, 4]);
        assert!(times(&mut rings).is_empty());
    }

    #[test]
    fn a_ring_goes_round() {
        let mut rings = rings();
        for turn in 0..5 {
            let now: Vec<u64> = (0..3).map(|fault| 1 + turn * 3 + fault).collect();
            now.iter().for_each(|time_ns| tell(&rings, 1, *time_ns));
            assert_eq!(times(&mut rings), now);
        }
    }

    #[test]
    fn what_is_told_while_it_is_read_waits_unless_it_came_before() {
        let mut rings = rings();
        tell(&rings, 1, 7);
        rings.take_rings();
        tell(&rings, 0, 6);
        tell(&rings, 0, 9);
        rings.take_rings();
        let mut given = Vec::new();
        rings.give(7, |fault| given.push(fault.time_ns));
        assert_eq!(given, [6, 7]);
        tell(&rings, 1, 8);
        assert_eq!(times(&mut rings), [8, 9]);
    }
}
