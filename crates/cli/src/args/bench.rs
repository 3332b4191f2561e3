// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flags of `bench`.

use clap::{Args, Subcommand};
use cowlab_schema::command::{self, Commanded};
use cowlab_schema::cow_check::{self, CowCheck};
use cowlab_schema::cow_faults::{self, CowFaults};
use cowlab_schema::fork_sections::{self, ForkSections};
use cowlab_schema::fork_sweep::{self, DoFork};
use cowlab_schema::fork_table::{self, ForkTable};
use cowlab_schema::snapshot::{self, Snapshot};
use cowlab_schema::{Cell, redis};

use super::{Cells, KernelsArgs, RedisArgs, RoundsArgs, RunArgs};

/// One measurement, and where its run is kept.
#[derive(Debug, Args)]
#[command(
    subcommand_value_name = "NAME",
    subcommand_help_heading = "Measurements",
    mut_subcommands(without_shared)
)]
pub struct BenchArgs {
    #[command(flatten)]
    pub shared: SharedArgs,
    #[command(subcommand)]
    pub bench: Bench,
}

/// What is said for every measurement, before its name or behind it.
#[derive(Debug, Args)]
pub struct SharedArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Set the page size's THP setting for this run (needs root) and put it back afterwards
    #[arg(long, global = true)]
    pub set_mthp: bool,
    #[command(flatten)]
    pub kernels: KernelsArgs,
}

/// A measurement's help names the help that has the shared flags, and does not repeat them.
fn without_shared(measurement: clap::Command) -> clap::Command {
    let shared = SharedArgs::augment_args(clap::Command::new("bench"));
    measurement
        .args(shared.get_arguments().map(|arg| arg.clone().hide(true)))
        .after_help("Options of every measurement (--kernel, --output, …): cowlab bench --help")
}

/// Every measurement with its flags: its name and what it is are the vocabulary's.
macro_rules! benches {
    ($($variant:ident($flags:ty) = $bench:expr,)*) => {
        #[derive(Debug, Subcommand)]
        pub enum Bench {
            $(
                #[command(name = $bench.name, about = $bench.about.trim())]
                $variant($flags),
            )*
        }

        impl Bench {
            /// Its name on the command line.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Bench::$variant(_) => $bench.name,)*
                }
            }
        }
    };
}

benches! {
    ForkSweep(CellArgs<DoFork>) = fork_sweep::BENCH,
    ForkTable(CellArgs<ForkTable>) = fork_table::BENCH,
    CowFaults(CellArgs<CowFaults>) = cow_faults::BENCH,
    Snapshot(CellArgs<Snapshot, 3>) = snapshot::BENCH,
    Redis(RedisArgs) = redis::BENCH,
    Command(CommandArgs) = command::BENCH,
    CowCheck(Cells<CowCheck>) = cow_check::BENCH,
    ForkSections(CellArgs<ForkSections>) = fork_sections::BENCH,
}

/// The flags of a bench whose cell the vocabulary has.
#[derive(Debug, Args)]
pub struct CellArgs<C: Cell, const ROUNDS: u32 = 5> {
    #[command(flatten)]
    pub cells: Cells<C>,
    #[command(flatten)]
    pub rounds: RoundsArgs<ROUNDS>,
}

#[derive(Debug, Args)]
pub struct CommandArgs {
    #[command(flatten)]
    pub cells: Cells<Commanded>,
    #[command(flatten)]
    pub rounds: RoundsArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<std::ffi::OsString>,
}
