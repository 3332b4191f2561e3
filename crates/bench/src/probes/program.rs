// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measured programs, embedded in this one and executed from memory.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, memfd_create};

/// The programs, with their names.
macro_rules! programs {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Program { $($(#[$doc])* $variant),+ }

        impl Program {
            pub(crate) const ALL: &'static [Program] = &[$(Program::$variant),+];

            pub fn name(self) -> &'static str {
                match self { $(Program::$variant => $name),+ }
            }

            fn bytes(self) -> &'static [u8] {
                match self {
                    $(Program::$variant => {
                        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
                    })+
                }
            }
        }
    };
}

programs! {
    /// Document 000's workload.
    DoFork = "do_fork",
    /// Document 004's and TLPI's table.
    ForkTable = "fork_table",
    /// Document 001's workload.
    ForkSmall = "fork_small",
    /// Document 002's workloads.
    CowFaults = "cow_faults",
    /// Document 003's microbenchmark.
    Snapshot = "snapshot",
    /// Isolation of parent and children.
    CowCheck = "cow_check",
    /// The primitive costs.
    Calibrate = "calibrate",
    /// Holds free memory against a hypervisor that takes it back.
    KeepWarm = "keep_warm",
    /// A program that only exits.
    Tiny = "tiny",
}

impl Program {
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
