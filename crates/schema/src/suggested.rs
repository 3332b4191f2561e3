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
    /// Which code copies.
    Blame = "blame PID",
    /// The same for a minute: time to make it fork.
    BlameLong = "blame PID --duration-s 60",
    /// The same of a program that it starts.
    BlameCommand = "blame -- COMMAND",
    /// Make the machine profile.
    Calibrate = "calibrate",
    /// What can be measured here.
    DoctorMachine = "doctor --tables",
    /// One program.
    Explain = "explain PID",
    /// The same at once.
    ExplainQuick = "explain PID --quick",
    /// The same with every choice.
    ExplainTables = "explain PID --tables",
    /// The same of a server that is asked.
    ExplainRedis = "explain redis://HOST:PORT",
    /// What a process maps and writes.
    Footprint = "footprint PID",
    /// What its next fork copies.
    FootprintForks = "footprint PID --forks 1",
    /// The patched kernel.
    KernelBoot = "kernel boot",
    /// A kernel that records its functions.
    KernelBuildTraced = "kernel build --variant traced",
    /// A fork, priced.
    Predict = "predict 1GiB",
    /// The forks of a footprint.
    PredictRun = "predict PID",
    /// The same with every choice.
    PredictTables = "predict PID --tables",
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
