// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps a forking process cheap to fork, from outside, on a stock kernel.
//!
//! A fork copies an entry of the page tables for each page. Where 512 of them are one huge page it
//! copies one. [`Tender`] looks at one process, decides ([`mod@plan`]) which regions to have collapsed into
//! huge pages, and has it done ([`act`]) between its forks, at a pace ([`pace`]) that follows from
//! the stalls that this causes. Nothing is put into the process, and it is neither stopped nor
//! traced: a collapse is one system call that either happened or did not, so that nothing is left
//! behind whenever this program ends.

pub mod act;
pub mod event;
pub mod figures;
pub mod forks;
pub mod history;
pub mod pace;
pub mod plan;
pub mod pressure;
pub mod privileges;
pub mod refusal;
pub mod region;
pub mod stop;
mod sys;
pub mod targets;
pub mod tender;

pub use event::{Event, Rest, Step};
pub use figures::Figures;
pub use refusal::Refusal;
pub use region::{Region, Survey};
pub use tender::{Tender, TenderSettings};
