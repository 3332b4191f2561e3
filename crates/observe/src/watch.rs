// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watching processes over time: what is known now, as plain data.
//!
//! [`Book`] keeps the accounts and is pure; [`Gatherer`] reads the machine and tells the book;
//! [`Frame`] is what the book says at a refresh, which views, files and metrics are made of.

mod attach;
mod book;
mod budget;
mod ends;
mod frame;
mod gather;
mod pids;
mod reading;
mod sample;
mod stops;
mod walks;

pub use attach::Options;
pub use book::Book;
pub use budget::Budget;
pub use frame::{
    ChildRow, Epoch, FRAME_FORMAT, Frame, Group, MappingRow, NAME, Own, PID, Process, RegionRow,
    Sees, Totals, figures,
};
pub use gather::Gatherer;
pub use pids::{Wanted, WantedError};
pub use reading::Reading;
pub use sample::Sample;
pub use stops::Stops;
