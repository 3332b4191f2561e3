// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics for scrapers, at an endpoint.

mod http;
mod metrics;

#[cfg(test)]
pub use metrics::text_of;
pub use metrics::{Endpoint, Family, Labels, Newest, Value, build, families};
