// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `trace report`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cowlab_report::casper::Order;

const ORDERS: [(&str, Order, &str); 7] = [
    ("self", Order::Own, "Time in the function alone"),
    ("inclusive", Order::Inclusive, "Time in it and in what it called"),
    ("calls", Order::Calls, "Calls"),
    ("mean", Order::Mean, "Mean duration"),
    ("p99", Order::P99, "99th percentile of the durations"),
    ("max", Order::Max, "Longest duration"),
    ("name", Order::Name, "Name"),
];

fn order() -> impl TypedValueParser<Value = Order> {
    let names = ORDERS.map(|(name, _, what)| PossibleValue::new(name).help(what));
    let named = |name: String| ORDERS.into_iter().find(|order| order.0 == name);
    PossibleValuesParser::new(names).map(move |name| named(name).expect("one of them").1)
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
    #[arg(long, default_value = "self", value_parser = order())]
    pub sort: Order,
    /// Also show times with the cost of recording included
    #[arg(long)]
    pub raw: bool,
    /// Rows of a table; 0: all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Write the report as a page to this file as well
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
