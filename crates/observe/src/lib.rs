// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A live process, looked at from outside: nothing in it is changed, stopped or left marked.
//!
//! [`Target`] is one process, held so that nobody who gets its number later is taken for it. What
//! it consists of is read through it: [`mappings`], [`pagemap`], [`children`].

pub mod bpf;
pub mod children;
mod clock;
pub mod footprint;
pub mod forkers;
pub mod mappings;
pub mod pagemap;
mod scan;
pub mod sharing;
pub mod target;
pub mod watch;

pub use mappings::{Kind, Mapping};
pub use pagemap::{Page, Pagemap};
pub use target::Target;
