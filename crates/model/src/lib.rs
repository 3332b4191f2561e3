// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Units, statistics and the cost model. No I/O and no unsafe code.

#![warn(missing_docs)]

pub mod advice;
pub mod application;
pub mod cost;
pub mod profile;
pub mod regression;
pub mod stats;
pub mod steady;

pub use stats::Estimate;

/// The example in README.md, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
