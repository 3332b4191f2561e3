// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measured programs, embedded in this one and executed from memory.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, memfd_create};

/// A measured C program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Document 000's workload.
    DoFork,
    /// Document 004's and TLPI's table.
    ForkTable,
    /// Document 002's workloads.
    CowFaults,
    /// Isolation of parent and children.
    CowCheck,
    /// The primitive costs.
    Calibrate,
    /// Holds free memory against a hypervisor that takes it back.
    KeepWarm,
    /// A program that only exits.
    Tiny,
    /// The least that a time-stamped event can cost.
    TraceFloor,
    /// Calls that nobody traces.
    TraceCalls,
}

impl Program {
    /// Every program.
    pub(crate) const ALL: [Program; 9] = [
        Program::DoFork,
        Program::ForkTable,
        Program::CowFaults,
        Program::CowCheck,
        Program::Calibrate,
        Program::KeepWarm,
        Program::Tiny,
        Program::TraceFloor,
        Program::TraceCalls,
    ];

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Program::DoFork => "do_fork",
            Program::ForkTable => "fork_table",
            Program::CowFaults => "cow_faults",
            Program::CowCheck => "cow_check",
            Program::Calibrate => "calibrate",
            Program::KeepWarm => "keep_warm",
            Program::Tiny => "tiny",
            Program::TraceFloor => "trace_floor",
            Program::TraceCalls => "trace_calls",
        }
    }

    fn bytes(self) -> &'static [u8] {
        macro_rules! built {
            ($name:literal) => {
                include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
            };
        }
        match self {
            Program::DoFork => built!("do_fork"),
            Program::ForkTable => built!("fork_table"),
            Program::CowFaults => built!("cow_faults"),
            Program::CowCheck => built!("cow_check"),
            Program::Calibrate => built!("calibrate"),
            Program::KeepWarm => built!("keep_warm"),
            Program::Tiny => built!("tiny"),
            Program::TraceFloor => built!("trace_floor"),
            Program::TraceCalls => built!("trace_calls"),
        }
    }

    /// The program as a file in memory that can be executed by [`path`].
    pub(crate) fn load(self) -> Result<File> {
        // Not close-on-exec: a probe executes `tiny` by the number of this descriptor.
        let flags = if self == Program::Tiny { MemfdFlags::empty() } else { MemfdFlags::CLOEXEC };
        let fd = memfd_create(self.name(), flags).with_context(|| {
            format!("cannot make the program {} in memory (memfd_create)", self.name())
        })?;
        let mut file = File::from(fd);
        file.write_all(self.bytes())
            .with_context(|| format!("no memory for the program {}", self.name()))?;
        Ok(file)
    }
}

/// The path by which this process and its children execute `file`.
pub(crate) fn path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
