// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records what programs that use libcasper write, or a kernel: makes the memory of a session, drains
//! it into a trace, and attaches to running programs. See `casper/include/cowlab/record.h`.

mod clock;
mod cost;
mod device;
mod drain;
mod file;
mod gate;
mod keeper;
mod modules;
mod orphans;
mod owner;
mod recording;
mod session;
mod target;

pub use clock::{Clock, Moment};
pub use cost::ProbeCost;
pub use drain::{Counters, Drain, Sink, counters};
pub use file::{Account, TraceFile};
pub use gate::Request;
pub use modules::record_modules;
pub use orphans::{children_left, collect_orphans, reap_and_find};
pub use owner::Owner;
pub use recording::Recording;
pub use session::{Kernel, Options, Session, WhenFull};
pub use target::Target;
