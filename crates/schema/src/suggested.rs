// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that cowlab tells people to run. They are written here and nowhere else, and a test
//! of the command line parses each.

use std::fmt;

/// What stands for a server's address.
const SERVER: &str = "redis://HOST:PORT";

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $words:literal,)*) => {
        /// A command that a message, a table or an advice names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Command {
            $($(#[$doc])* $name,)*
        }

        impl Command {
            /// Every one.
            pub const ALL: &[Command] = &[$(Command::$name,)*];

            /// As it is typed.
            fn text(self) -> &'static str {
                match self {
                    $(Command::$name => concat!("cowlab ", $words),)*
                }
            }
        }
    };
}

commands! {
    /// What each choice would change for a process.
    Advise = "advise PID",
    /// The same of a server that is asked.
    AdviseRedis = "advise redis://HOST:PORT",
    /// The same, whole.
    AdviseTables = "advise PID --tables",
    /// Which code copies.
    Blame = "blame PID",
    /// The same for a minute: time to make it fork.
    BlameLong = "blame PID --duration-s 60",
    /// The same of a program that it starts.
    BlameCommand = "blame -- COMMAND",
    /// Make the machine profile.
    Calibrate = "calibrate",
    /// One policy of the kernel that runs.
    CowFaults = "bench cow-faults --policy next",
    /// What its next fork meets.
    Doctor = "doctor PID",
    /// The same of a server that is asked.
    DoctorRedis = "doctor --redis redis://HOST:PORT",
    /// Each thing that was looked at.
    DoctorTables = "doctor PID --tables",
    /// The same of the machine alone.
    DoctorMachine = "doctor --tables",
    /// One program in plain words.
    Explain = "explain PID",
    /// The same of a server that is asked.
    ExplainRedis = "explain redis://HOST:PORT",
    /// What a process maps and writes.
    Footprint = "footprint PID",
    /// What its next fork copies.
    FootprintForks = "footprint PID --forks 1",
    /// Record a program's events.
    TraceRecord = "trace record -- COMMAND",
    /// Kernel policies side by side.
    KernelCowFaults = "kernel bench cow-faults --policy off,next",
    /// Forks that copy page tables, and that leave them for later.
    KernelForkSweep = "kernel bench fork-sweep --set policy=off,defer",
    /// The patched kernel.
    KernelBoot = "kernel boot",
    /// A kernel that records its functions.
    KernelBuildTraced = "kernel build --variant traced",
    /// A fork, priced.
    Predict = "predict --size-bytes 1GiB",
    /// A run with all its tables.
    Report = "report PID",
    /// Which memory workers share, now.
    Sharing = "sharing PID",
    /// How fast they lose it.
    SharingRate = "sharing PID --duration-s 60",
    /// What copying ahead saves, by depth.
    StudyNextPage = "study next-page",
    /// Keep a process cheap to fork.
    Tend = "tend PID",
    /// What that would do.
    TendDryRun = "tend PID --dry-run",
    /// Each of its forks.
    Watch = "watch PID",
    /// Frames, one a line.
    WatchJson = "watch --json",
}

impl Command {
    /// The same for a process that is known.
    pub fn of(self, target: impl fmt::Display) -> String {
        self.text().replace("PID", &target.to_string())
    }

    /// The same for a server whose address is known.
    pub fn at(self, address: Option<&str>) -> String {
        self.text().replace(SERVER, address.unwrap_or(SERVER))
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
