// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CASPER's trace: the records, how they are stored, and how they are read again.
//!
//! After Barkley and Schimmel 1988. `casper/include/cowlab/record.h` defines every layout; [`record`] is
//! made from it.

#![warn(missing_docs)]

pub mod compose;
pub mod elf;
pub mod meta;
pub mod profile;
pub mod read;
pub mod record;
pub mod symbol;
pub mod walk;
pub mod write;

/// The example in README.md, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
