// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file a verb.

pub mod bench;
pub mod blame;
pub mod calibrate;
pub mod compare;
pub mod doctor;
pub mod explain;
pub mod footprint;
pub mod kernel;
pub mod manual;
pub mod overview;
pub mod predict;
pub mod report;
pub mod sharing;
pub mod study;
pub mod tend;
pub mod watch;
