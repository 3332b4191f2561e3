// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decodes records of the rings. Pure: tested on saved bytes.

use serde::{Deserialize, Serialize};
use zerocopy::FromBytes;

use super::record::{
    COWLAB_COPIES, COWLAB_COUNTS, COWLAB_EXEC, COWLAB_EXIT, COWLAB_FAULTS, COWLAB_FORK,
    COWLAB_KILLED, COWLAB_STACK_UPPER, COWLAB_TELLING_NS, COWLAB_WRITES_ABSENT,
    COWLAB_WRITES_PRESENT, cowlab_copy, cowlab_event, cowlab_fault,
};

const CLONE_VM: u64 = 0x100;

/// Something that a watched process did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub time_ns: u64,
    pub tgid: u32,
    pub tid: u32,
    /// As the kernel keeps it: at most 15 bytes.
    pub comm: String,
    pub what: Happening,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    Fork(ForkEvent),
    /// Its first thread ended.
    Exit,
    Exec,
    Killed(Killed),
}

/// A signal that a process does not handle; whether that ends it depends on the signal (signal(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    pub signal: u32,
    /// Of SIGSEGV and SIGBUS, what was accessed.
    pub address: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkEvent {
    /// `None` if the kernel's structure was not understood.
    pub child_tgid: Option<u32>,
    /// vfork or posix_spawn: nothing is copied.
    pub shares_memory: bool,
    /// How long the forking thread stood still: from just before its page tables are copied until the
    /// child is complete. `None` if memory is shared or the beginning was not seen.
    pub stop_ns: Option<u64>,
}

/// A page fault in user mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub time_ns: u64,
    pub address: u64,
    pub tgid: u32,
    pub tid: u32,
    pub error_code: u32,
}

impl Fault {
    /// `None` if the bytes are no record of the ring of faults.
    pub fn decode(bytes: &[u8]) -> Option<Fault> {
        let (raw, _) = cowlab_fault::read_from_prefix(bytes).ok()?;
        Some(Fault {
            time_ns: raw.time_ns,
            address: raw.address,
            tgid: raw.tgid,
            tid: raw.tid,
            error_code: raw.error_code,
        })
    }
}

/// A page that was copied because it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    pub time_ns: u64,
    pub address: u64,
    pub tgid: u32,
    pub tid: u32,
    /// One in so many copies was recorded at that time.
    pub every: u32,
    /// The system call in which the kernel wrote; `None`: the program itself wrote.
    pub syscall: Option<u32>,
    /// The registers that stacks are unwound from: instruction, stack and frame pointer.
    pub registers: [u64; 3],
    /// The stack, or part of it, from the stack pointer up.
    pub stack: Vec<u8>,
    /// The last piece of one that is longer, and its address.
    pub upper: (u64, Vec<u8>),
    pub is_32_bit: bool,
}

impl Copied {
    /// `None` if the bytes are no record of the ring of copies.
    pub fn decode(bytes: &[u8]) -> Option<Copied> {
        let (raw, pieces) = cowlab_copy::read_from_prefix(bytes).ok()?;
        let upper_bytes = if raw.upper == 0 { 0 } else { COWLAB_STACK_UPPER as usize };
        let (upper, stack) = pieces.split_at_checked(upper_bytes)?;
        Some(Copied {
            time_ns: raw.time_ns,
            address: raw.address,
            tgid: raw.tgid,
            tid: raw.tid,
            every: raw.every.max(1),
            syscall: raw.syscall.try_into().ok(),
            registers: [raw.ip, raw.sp, raw.fp],
            stack: stack.get(..raw.stack_bytes as usize)?.to_vec(),
            upper: (raw.upper, upper.to_vec()),
            is_32_bit: raw.is_32_bit != 0,
        })
    }
}

impl Event {
    /// `None` if the bytes are no record of the ring of events.
    pub fn decode(bytes: &[u8]) -> Option<Event> {
        let (raw, _) = cowlab_event::read_from_prefix(bytes).ok()?;
        let what = match raw.kind {
            COWLAB_FORK => {
                let stop_ns = raw.time_ns.checked_sub(raw.begin_ns);
                Happening::Fork(ForkEvent {
                    child_tgid: (raw.child_tgid != 0).then_some(raw.child_tgid),
                    shares_memory: raw.clone_flags & CLONE_VM != 0,
                    stop_ns: stop_ns.filter(|_| raw.begin_ns != 0),
                })
            }
            COWLAB_EXIT => Happening::Exit,
            COWLAB_EXEC => Happening::Exec,
            COWLAB_KILLED => {
                let signal = u32::try_from(raw.clone_flags).ok()?;
                Happening::Killed(Killed { signal, address: raw.begin_ns })
            }
            _ => return None,
        };
        let name = raw.comm.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Event {
            time_ns: raw.time_ns,
            tgid: raw.tgid,
            tid: raw.tid,
            comm: String::from_utf8_lossy(name).into_owned(),
            what,
        })
    }
}

/// A process's faults since it is watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub faults: u64,
    pub writes_to_present: u64,
    pub writes_to_absent: u64,
    /// In copies mode, also pages that no fault in user mode asked for.
    #[serde(default)]
    pub copies: u64,
    /// Time (ns) that its threads spent recording them, in copies mode.
    #[serde(default)]
    pub telling_ns: u64,
}

/// Ordered as `cowlab_count`.
pub(super) type CpuCounts = [u64; COWLAB_COUNTS as usize];

impl Counts {
    pub(super) fn sum<'a>(of_cpus: impl IntoIterator<Item = &'a CpuCounts>) -> Counts {
        of_cpus.into_iter().fold(Counts::default(), |sum, cpu| Counts {
            faults: sum.faults + cpu[COWLAB_FAULTS as usize],
            writes_to_present: sum.writes_to_present + cpu[COWLAB_WRITES_PRESENT as usize],
            writes_to_absent: sum.writes_to_absent + cpu[COWLAB_WRITES_ABSENT as usize],
            copies: sum.copies + cpu[COWLAB_COPIES as usize],
            telling_ns: sum.telling_ns + cpu[COWLAB_TELLING_NS as usize],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::record::COWLAB_WRITE_PRESENT;

    /// A fork of redis-server as the kernel wrote it (x86-64, Linux 6.18).
    const FORK: &[u8] = &[
        0x40, 0xe2, 0x01, 0, 0, 0, 0, 0, // time_ns 123456
        0x10, 0x27, 0, 0, 0, 0, 0, 0, // begin_ns 10000
        0x00, 0x00, 0x20, 0x01, 0, 0, 0, 0, // clone_flags
        1, 0, 0, 0, 0x39, 0x30, 0, 0, // kind, tgid 12345
        0x3a, 0x30, 0, 0, 0x3b, 0x30, 0, 0, // tid, child
        b'r', b'e', b'd', b'i', b's', b'-', b's', b'e', b'r', b'v', b'e', b'r', 0, 0, 0, 0,
    ];

    fn changed(at: usize, to: u8) -> Vec<u8> {
        let mut bytes = FORK.to_vec();
        bytes[at] = to;
        bytes
    }

    #[test]
    fn a_fork_has_its_stop_and_its_child() {
        let event = Event::decode(FORK).unwrap();
        assert_eq!((event.tgid, event.tid, event.comm.as_str()), (12345, 12346, "redis-server"));
        let fork = ForkEvent {
            child_tgid: Some(12347),
            shares_memory: false,
            stop_ns: Some(123_456 - 10_000),
        };
        assert_eq!(event.what, Happening::Fork(fork));
    }

    #[test]
    fn what_was_not_seen_is_absent() {
        let mut bytes = FORK.to_vec();
        bytes[8..16].fill(0);
        bytes[36..40].fill(0);
        let Happening::Fork(fork) = Event::decode(&bytes).unwrap().what else { panic!() };
        assert_eq!((fork.stop_ns, fork.child_tgid), (None, None));
        let Happening::Fork(fork) = Event::decode(&changed(17, 0x41)).unwrap().what else {
            panic!()
        };
        assert!(fork.shares_memory);
    }

    #[test]
    fn other_kinds_and_what_is_cut() {
        assert_eq!(Event::decode(&changed(24, 2)).unwrap().what, Happening::Exit);
        assert_eq!(Event::decode(&changed(24, 3)).unwrap().what, Happening::Exec);
        let Happening::Killed(by) = Event::decode(&changed(24, 4)).unwrap().what else { panic!() };
        assert_eq!((by.signal, by.address), (0x0120_0000, 10_000));
        assert_eq!(Event::decode(&changed(24, 9)), None);
        assert_eq!(Event::decode(&FORK[..55]), None);
        assert_eq!(Fault::decode(&FORK[..31]), None);
    }

    #[test]
    fn a_fault_is_told_from_its_code() {
        let mut bytes = [0; 32];
        bytes[8..16].copy_from_slice(&0x7f12_3456_7890_u64.to_le_bytes());
        bytes[24] = 7;
        let fault = Fault::decode(&bytes).unwrap();
        assert_eq!(fault.address, 0x7f12_3456_7890);
        assert_eq!(fault.error_code, COWLAB_WRITE_PRESENT);
    }

    #[test]
    fn counts_add_up_over_cpus() {
        let sum = Counts::sum(&[[5, 2, 1, 1, 20], [7, 0, 7, 0, 3]]);
        let counts = [sum.faults, sum.writes_to_present, sum.writes_to_absent];
        assert_eq!((counts, sum.copies, sum.telling_ns), ([12, 2, 8], 1, 23));
    }
}
