// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `study`, and what each paper's study can be told.

use clap::{ArgAction, Args, ValueEnum};

use super::{GuestArgs, RunArgs};

/// A paper, by its name or by its number in papers/.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// Smith and Maguire (1988): forks of a heap of which a fraction is written
    #[value(alias = "000")]
    SmithMaguire,
    /// Barkley and Schimmel (1988): a fork taken apart, on kernels that are built for it
    #[value(alias = "001", alias = "casper")]
    ForkSections,
    /// the Copy-on-Write Optimization Study: faults under next-page pre-copy and beyond
    #[value(alias = "002")]
    NextPage,
    /// CCoW (2022): snapshots and Redis under coverage-based copy-on-write
    #[value(alias = "003")]
    Ccow,
    /// TLPI's table 28-3 and its replay: processes made by fork, vfork, spawn and exec
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
    /// 3 to 6 minutes; the default without a paper
    #[arg(long, group = "extent")]
    pub quick: bool,
    /// More rounds, until each time is known to 3%: 12 minutes at most
    #[arg(long, group = "extent")]
    pub full: bool,
    /// This many rounds, instead of as many as the time allows; fewer rounds give wider intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Further settings of a paper's study; a wrong key lists those there are (docs/metrics.md
    /// explains them)
    #[arg(long, value_name = "KEY=VALUE[,VALUE…]", requires = "paper", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Measure pages of 64 KiB as well: sets their THP setting meanwhile (needs root) and puts it back
    #[arg(long, conflicts_with = "paper")]
    pub set_mthp: bool,
    /// Print all tables, not only the findings
    #[arg(long)]
    pub tables: bool,
    #[command(flatten)]
    pub guest: GuestArgs,
}
