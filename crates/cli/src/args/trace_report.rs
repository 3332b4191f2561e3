// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `trace report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cowlab_report::casper::Order;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time in the function alone
    #[value(name = "self")]
    Own,
    /// Time in it and in what it called
    Inclusive,
    /// Calls
    Calls,
    /// Mean duration
    Mean,
    /// 99th percentile of the durations
    P99,
    /// Longest duration
    Max,
    /// Name
    Name,
}

impl Sort {
    pub fn order(self) -> Order {
        match self {
            Sort::Own => Order::Own,
            Sort::Inclusive => Order::Inclusive,
            Sort::Calls => Order::Calls,
            Sort::Mean => Order::Mean,
            Sort::P99 => Order::P99,
            Sort::Max => Order::Max,
            Sort::Name => Order::Name,
        }
    }
}

#[derive(Debug, Args)]
pub struct TraceReportArgs {
    /// The trace
    pub file: PathBuf,
    /// Only the process with this pid
    #[arg(value_name = "PID")]
    pub pid: Option<u32>,
    /// Only this thread
    #[arg(long, value_name = "TID")]
    pub tid: Option<u32>,
    /// Count events by process, by thread, or by the values of a field
    #[arg(long, value_name = "process|thread|TYPE.FIELD")]
    pub by: Option<String>,
    /// Time from each event of type A to the next of type B; with a name it is a section of
    /// --total; may be repeated
    #[arg(long, value_name = "[NAME=]A,B")]
    pub between: Vec<String>,
    /// The whole that the sections are parts of; what they leave is miscellaneous
    #[arg(long, value_name = "NAME=A,B")]
    pub total: Option<String>,
    /// Look for B in all threads, not only in A's
    #[arg(long)]
    pub across: bool,
    /// Only these functions, and what they are made of; * and ? are understood
    #[arg(long, value_name = "GLOB")]
    pub function: Option<String>,
    /// Which functions come first
    #[arg(long, value_enum, default_value = "self")]
    pub sort: Sort,
    /// Also the times from which the cost of recording is not taken off
    #[arg(long)]
    pub raw: bool,
    /// Rows of a table; 0: all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Write the report as a page to this file as well
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
