// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live processes, observed from outside over a time: their forks, copies and sharing.

pub mod blame;
pub mod bpf;
mod clock;
pub mod footprint;
pub mod forkers;
pub mod redis;
pub mod sharing;
pub mod watch;
