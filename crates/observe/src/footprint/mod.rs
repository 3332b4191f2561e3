// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The application profile: what a program maps and writes between two moments (document 000,
//! sections 4 and 5).
//!
//! [`Moment`] is what is kept of the first one; [`Span`] is what lies between it and the second.
//! [`follow`] looks at the exact moments of a command, stopping it at each; [`live`] looks at a
//! process that goes on. [`method`] decides how.

mod births;
pub mod bpf_source;
pub mod copy;
mod event;
pub mod faults;
pub mod follow;
pub mod live;
pub mod method;
pub mod order;
mod ptrace;
pub mod reading;
pub mod samples;
pub mod shares;
mod sides;
pub mod spans;
pub mod tally;
pub mod tracer;

pub use method::Method;
pub use reading::Reading;
pub use spans::{Moment, Span, Spans, Writer};
pub use tally::{Counts, Tally, share};
