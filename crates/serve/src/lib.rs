// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics for scrapers: at an endpoint, or in a file for a node exporter's textfile collector.

mod file;
mod http;
mod metrics;

pub use file::{replace, write_metrics};
pub use http::{Answer, Request, parse_head};
pub use metrics::{Endpoint, Family, Kind, Labels, Metric, Newest, Value, build, text_of};
