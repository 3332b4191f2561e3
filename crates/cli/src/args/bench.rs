// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flags of `bench`.

use clap::{Args, Subcommand};
use cowlab_bench::precopy::DEPTHS;
use cowlab_bench::trace::Tool;
use cowlab_machine::Policy;
use cowlab_probes::{Method, Pattern, Reap, Writer};

use super::{
    BenchObserveArgs, BenchTendArgs, CcowArgs, FootprintsArgs, ForecastArgs, RedisArgs, RunArgs,
    SnapshotArgs, fraction, size,
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
    /// Document 000's program: forks of a heap of which a fraction is written
    ForkSweep(ForkSweepArgs),
    /// Document 004's and TLPI's table: fork, vfork, spawn and exec by size
    ForkTable(ForkTableArgs),
    /// Document 002's workloads: each write after a fork
    CowFaults(CowFaultsArgs),
    /// Document 002 whole: its workloads under its policy and deeper ones (patched kernel, root)
    PreCopy(PreCopyArgs),
    /// Document 003's microbenchmark: writes after Zipf's law in a space that is forked again and
    /// again
    Snapshot(SnapshotArgs),
    /// Document 003's second benchmark: a real redis-server that takes snapshots under YCSB's updates
    Redis(RedisArgs),
    /// Document 003 whole: both of its benchmarks under its policies and the kernel's own (patched
    /// kernel, root)
    Ccow(CcowArgs),
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
    Trace(BenchTraceArgs),
}

impl Bench {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Bench::ForkSweep(_) => "fork-sweep",
            Bench::ForkTable(_) => "fork-table",
            Bench::CowFaults(_) => "cow-faults",
            Bench::PreCopy(_) => "pre-copy",
            Bench::Snapshot(_) => "snapshot",
            Bench::Redis(_) => "redis",
            Bench::Ccow(_) => "ccow",
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

#[derive(Debug, Args)]
pub struct ForkSweepArgs {
    /// Forks of one program run
    #[arg(long, value_delimiter = ',', default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub forks: Vec<u64>,
    /// Size of the heap
    #[arg(long, alias = "size-bytes", value_delimiter = ',', default_value = "16MiB", value_parser = size)]
    pub heap_bytes: Vec<u64>,
    /// Share of the heap that is written, 0..1
    #[arg(long, value_delimiter = ',', default_value = "0.5", value_parser = fraction, allow_negative_numbers = true)]
    pub write_fraction: Vec<f64>,
    /// fork, vfork, clone-vm-vfork, posix-spawn
    #[arg(long, value_delimiter = ',', default_value = "fork")]
    pub method: Vec<Method>,
    /// child, parent (a child is held alive), parent-reuse (it has ended)
    #[arg(long, value_delimiter = ',', default_value = "child")]
    pub writer: Vec<Writer>,
    /// How children are reaped: each, never (as published), or at most N alive
    #[arg(long, default_value = "each")]
    pub reap: Reap,
    /// Size of the heap's pages: the base page, THP or an mTHP size
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub page_size_bytes: Vec<u64>,
    /// Other running threads of the forking process
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub threads: Vec<u32>,
    /// Replace the heap's pages in no order before, as the copies of earlier forks do
    #[arg(long)]
    pub scatter: bool,
    /// Mappings (VMAs) beside the heap with a written page each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub vmas_anon: Vec<u64>,
    /// Mappings of a file beside the heap, without a page of their own
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub vmas: Vec<u64>,
    /// Microseconds of other work before each fork, through as much memory as four second-level caches hold
    #[arg(long, value_name = "US", value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub work_us: Vec<u64>,
    /// Leave the heap untouched before the fork, as malloc alone does
    #[arg(long)]
    pub untouched: bool,
    /// Make one fork before, of which nothing is recorded
    #[arg(long)]
    pub settle: bool,
    #[command(flatten)]
    pub how: How,
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
    pub how: How,
}

#[derive(Debug, Args)]
pub struct ForkTableArgs {
    /// fork, vfork, posix-spawn, fork+exec, vfork+exec
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "fork,vfork,posix-spawn,fork+exec,vfork+exec"
    )]
    pub method: Vec<Method>,
    /// What the program allocates before
    #[arg(long, value_delimiter = ',', default_value = "1782579,2831155,12268339", value_parser = size)]
    pub size_bytes: Vec<u64>,
    /// Processes created in one run
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub iterations: u64,
    /// Write every page before; both if not given
    #[arg(long, value_name = "BOOL")]
    pub touched: Option<bool>,
    /// The document's 100,000 iterations and 10 runs
    #[arg(long)]
    pub paper: bool,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct CowFaultsArgs {
    /// single, sequential, random
    #[arg(long, value_delimiter = ',', default_value = "single,sequential,random")]
    pub pattern: Vec<Pattern>,
    /// Memory that the fork shares
    #[arg(long, value_delimiter = ',', default_value = "16MiB,64MiB", value_parser = size)]
    pub size_bytes: Vec<u64>,
    /// child, parent
    #[arg(long, value_delimiter = ',', default_value = "child")]
    pub writer: Vec<Writer>,
    /// Children alive at once
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub children: Vec<u32>,
    /// Other running threads of each writing process
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub threads: Vec<u32>,
    /// Size of the memory's pages
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub page_size_bytes: Vec<u64>,
    /// What the kernel copies at a fault, in turn: off, next, next:PAGES, next:PAGES:ORDER, ccow, ccow:THRESHOLD, ccow:THRESHOLD:ORDER:REGION_KB; as it is, if not given
    #[arg(long, value_delimiter = ',')]
    pub policy: Vec<Policy>,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct PreCopyArgs {
    /// Pages copied ahead of a write; the first depth is also measured at 16 MiB
    #[arg(long, value_name = "PAGES", value_delimiter = ',', default_values_t = DEPTHS, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub depths: Vec<u32>,
    /// Rounds; each measures everything once, in an order of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
}

#[derive(Debug, Args)]
pub struct CommandArgs {
    /// What the kernel copies at a fault, in turn: off, next, next:PAGES, next:PAGES:ORDER, ccow, ccow:THRESHOLD, ccow:THRESHOLD:ORDER:REGION_KB; as it is, if not given
    #[arg(long, value_delimiter = ',')]
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
    pub how: How,
}

#[derive(Debug, Args)]
pub struct BenchTraceArgs {
    /// floor, casper, casper-finstrument, lttng-ust, uftrace
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "floor,casper,casper-finstrument,lttng-ust,uftrace"
    )]
    pub tool: Vec<Tool>,
    /// Threads that make events at once
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Vec<u32>,
    /// Timed events of each thread in a round
    #[arg(long, default_value_t = 800_000, value_parser = clap::value_parser!(u64).range(8..=100_000_000))]
    pub events: u64,
    /// Size of a thread's ring, a power of two
    #[arg(long, default_value = "1MiB", value_parser = size)]
    pub buffer_bytes: u64,
    #[command(flatten)]
    pub how: How,
}

/// How a measurement is repeated.
#[derive(Debug, Clone, Args)]
pub struct How {
    /// Rounds; each measures everything once, in an order of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Let the scheduler place parent, children and threads
    #[arg(long)]
    pub no_pin: bool,
}
