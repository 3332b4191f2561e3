// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `study`, and what each paper's study can be told.

use clap::{ArgAction, Args, ValueEnum};
use cowlab_bench::ccow::EXPONENTS;
use cowlab_bench::precopy::DEPTHS;

use super::{GuestArgs, RunArgs, settings, share, size};
use crate::usage::WrongUsage;

/// A paper, by its name or by its number in papers/.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// 000, Smith and Maguire (1988): forks of a heap of which a fraction is written
    #[value(alias = "000")]
    SmithMaguire,
    /// 001, Barkley and Schimmel (1988): a fork taken apart, on kernels that are built for it
    #[value(alias = "001")]
    Casper,
    /// 002, the Copy-on-Write Optimization Study: faults under next-page pre-copy and beyond
    #[value(alias = "002")]
    NextPage,
    /// 003, CCoW (2022): snapshots and Redis under coverage-based copy-on-write
    #[value(alias = "003")]
    Ccow,
    /// 004, TLPI's table 28-3 and its replay: processes made by fork, vfork, spawn and exec
    #[value(alias = "004")]
    Tlpi,
}

#[derive(Debug, Args)]
pub struct StudyArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// One paper, at its own sizes; without, all that can be measured of them in the time.
    /// next-page and ccow run on this kernel if it has their policy, else in a virtual machine
    #[arg(value_enum)]
    pub paper: Option<Paper>,
    /// About 3 minutes; the default without a paper
    #[arg(long, group = "extent")]
    pub quick: bool,
    /// More forks and more rounds, about 15 minutes
    #[arg(long, group = "extent")]
    pub full: bool,
    /// So many rounds of everything, instead of as many as the time allows; intervals widen
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// What a paper's study can be told beside. casper: forks, size_bytes, change, image,
    /// instructions; next-page: depths; ccow: zipf_alpha, size_bytes, turnovers, redis_bytes,
    /// redis_turnovers, snapshots, load, redis_rounds
    #[arg(long, value_name = "KEY=VALUE[,VALUE…]", requires = "paper", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Print all tables, not the findings alone
    #[arg(long)]
    pub tables: bool,
    #[command(flatten)]
    pub guest: GuestArgs,
}

impl StudyArgs {
    /// What the study of the paper is told by `--set`.
    pub fn settings<T: Args>(&self) -> Result<T, WrongUsage> {
        settings(&self.set)
    }
}

/// Nothing more.
#[derive(Debug, Args)]
pub struct NoSettings {}

#[derive(Debug, Args)]
pub struct CasperSettings {
    /// Forks of each size in a boot
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub forks: u32,
    /// Heaps beyond the smallest possible process
    #[arg(long, value_delimiter = ',', default_value = "0,10MiB,100MiB,1GiB", value_parser = size)]
    pub size_bytes: Vec<u64>,
    /// Only these changes of kernel/study, by number or name; none: Table I alone
    #[arg(long, value_delimiter = ',')]
    pub change: Vec<String>,
    /// A kernel that was built elsewhere, instead of building: NAME=FILE, the unchanged one first
    #[arg(long, conflicts_with = "change")]
    pub image: Vec<String>,
    /// Whether instructions are counted as well
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub instructions: bool,
}

#[derive(Debug, Args)]
pub struct NextPageSettings {
    /// Pages copied ahead of a write; the first depth is also measured at 16 MiB
    #[arg(long, value_delimiter = ',', default_values_t = DEPTHS, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub depths: Vec<u32>,
}

/// How large document 003's two benchmarks are made.
#[derive(Debug, Args)]
pub struct CcowSettings {
    /// Exponents of Zipf's law by which the microbenchmark's blocks are chosen
    #[arg(long, value_delimiter = ',', default_values_t = EXPONENTS, value_parser = alpha, allow_negative_numbers = true)]
    pub zipf_alpha: Vec<f64>,
    /// The microbenchmark's space (document 003: 16 GiB)
    #[arg(long, default_value = "64MiB", value_parser = size)]
    pub size_bytes: u64,
    /// How often its size is written (document 003: ten)
    #[arg(long, default_value_t = 15.0, value_parser = turnovers, allow_negative_numbers = true)]
    pub turnovers: f64,
    /// Memory of Redis's records, roughly (document 003: 10 GB)
    #[arg(long, default_value = "16MiB", value_parser = size)]
    pub redis_bytes: u64,
    /// Updates of each of its phases for each record (document 003: ten)
    #[arg(long, default_value_t = 5.0, value_parser = turnovers, allow_negative_numbers = true)]
    pub redis_turnovers: f64,
    /// Snapshots of each phase that takes any
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub snapshots: u32,
    /// Rates of Redis's open loops, as shares of what a server of base pages answers at most
    #[arg(long, value_delimiter = ',', default_value = "0.5", value_parser = share, allow_negative_numbers = true)]
    pub load: Vec<f64>,
    /// Rounds that measure Redis and the batches' costs as well
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub redis_rounds: u32,
}

fn alpha(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=3.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not in 0..3")),
    }
}

fn turnovers(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=10_000.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not in 0.1..10000")),
    }
}
