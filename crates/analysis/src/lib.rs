// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From samples to results: pure, without files or processes. How results look is the report's.

pub mod application;
pub mod blame;
pub mod check;
pub mod compared;
pub mod comparison;
pub mod configuration;
mod difference;
pub mod figures;
pub mod glob;
pub mod machine;
pub mod precision;
pub mod samples;
pub mod study;

pub use difference::{Difference, Verdict};
