// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flags of `bench`.

use clap::{Args, Subcommand};
use cowlab_schema::cow_faults::CowFaults;
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::fork_table::ForkTable;
use cowlab_schema::snapshot::Snapshot;
use cowlab_schema::trace::Traced;
use cowlab_schema::{Cell, Policy, Value};

use super::{
    BenchObserveArgs, BenchTendArgs, Cells, FootprintsArgs, ForecastArgs, RedisArgs, RoundsArgs,
    RunArgs, size,
};

/// One measurement, and where its run is kept.
#[derive(Debug, Args)]
#[command(subcommand_value_name = "NAME", subcommand_help_heading = "Measurements")]
pub struct BenchArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Set the page size's THP setting for this run (needs root) and put it back afterwards
    #[arg(long, global = true)]
    pub set_mthp: bool,
    #[command(subcommand)]
    pub bench: Bench,
}

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Forks of a heap of which a fraction is written: Smith and Maguire (1988)
    ForkSweep(CellArgs<DoFork>),
    /// Processes made by fork, vfork, spawn and exec, by size: TLPI's table 28-3 and its replay
    ForkTable(CellArgs<ForkTable>),
    /// Each write after a fork: the workloads of the Copy-on-Write Optimization Study
    CowFaults(CellArgs<CowFaults>),
    /// Document 003's microbenchmark: writes after Zipf's law in a space that is forked again and
    /// again
    Snapshot(CellArgs<Snapshot, 3>),
    /// Document 003's second benchmark: a real redis-server that takes snapshots under YCSB's updates
    Redis(RedisArgs),
    /// Real programs of a list: what they write between two moments, in one table
    Footprints(FootprintsArgs),
    /// The same programs: what their forks cost, predicted and measured
    Forecast(ForecastArgs),
    /// A forking program tended and untended: its stops, latencies and memory over many forks
    Tend(BenchTendArgs),
    /// A program of yours, under each policy in turn
    Command(CommandArgs),
    /// Check that copy-on-write keeps parent and children apart
    CowCheck(CowCheckArgs),
    /// Our times of fork and vfork beside the kernel's own trace events (needs root)
    CrossCheck(CrossCheckArgs),
    /// Document 001's Table I: forks by the kernel's sections (on a kernel built with
    /// --variant traced)
    ForkSections(ForkSectionsArgs),
    /// What watching costs a program that does nothing but fault, and how well a stop is seen
    Observe(BenchObserveArgs),
    /// What an event and an instrumented call cost, beside LTTng-UST and uftrace
    Trace(CellArgs<Traced>),
}

impl Bench {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Bench::ForkSweep(_) => "fork-sweep",
            Bench::ForkTable(_) => "fork-table",
            Bench::CowFaults(_) => "cow-faults",
            Bench::Snapshot(_) => "snapshot",
            Bench::Redis(_) => "redis",
            Bench::Footprints(_) => "footprints",
            Bench::Forecast(_) => "forecast",
            Bench::Tend(_) => "tend",
            Bench::Command(_) => "command",
            Bench::CowCheck(_) => "cow-check",
            Bench::CrossCheck(_) => "cross-check",
            Bench::Observe(_) => "observe",
            Bench::Trace(_) => "trace",
            Bench::ForkSections(_) => "fork-sections",
        }
    }
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
pub struct ForkSectionsArgs {
    /// Forks of each size
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub forks: u32,
    /// Heaps beyond the smallest possible process, which has one page each of text, data and stack
    #[arg(long, alias = "heap-bytes", value_delimiter = ',', default_value = "0,10MiB,100MiB,1GiB", value_parser = size)]
    pub size_bytes: Vec<u64>,
    #[command(flatten)]
    pub rounds: RoundsArgs,
}

#[derive(Debug, Args)]
pub struct CommandArgs {
    /// What the kernel copies at a fault, in turn
    #[arg(long, value_delimiter = ',', default_value = "stock", long_help = Policy::KIND)]
    pub policy: Vec<Policy>,
    /// Rounds; each runs the program once under each policy
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub struct CowCheckArgs {
    /// Children at once
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5,6,7,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub children: Vec<u32>,
    /// Memory that the processes change
    #[arg(long, default_value = "16MiB", value_parser = size)]
    pub size_bytes: u64,
    /// Size of its pages; base pages and THP if not given
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub page_size_bytes: Vec<u64>,
    /// Share the memory, so that the check must fail
    #[arg(long, hide = true)]
    pub broken: bool,
}

#[derive(Debug, Args)]
pub struct CrossCheckArgs {
    /// Calls of each method in a round
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    pub calls: u64,
    #[command(flatten)]
    pub rounds: RoundsArgs,
}
