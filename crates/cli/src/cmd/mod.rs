// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file a verb.

pub mod advise;
mod advise_table;
pub mod bench;
mod bench_ccow;
pub mod bench_observe;
mod bench_programs;
pub mod bench_redis;
pub mod bench_snapshot;
pub mod bench_tend;
pub mod bench_trace;
pub mod calibrate;
pub mod compare;
pub mod cross_check;
pub mod doctor;
pub mod footprint;
pub mod insert;
pub mod kernel;
pub mod manual;
pub mod predict;
pub mod report;
pub mod study;
pub mod tend;
pub mod trace;
pub mod watch;
