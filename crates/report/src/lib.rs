// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured, as people read it: findings, tables and plots, in a [`Document`].

pub mod blame;
mod cells;
pub mod comparison;
mod distribution;
pub mod emulated;
mod facts;
pub mod figures;
mod flame;
pub mod footprint;
pub mod fork_sections;
pub mod machine_profile;
pub mod next_page;
mod papers;
pub mod redis;
mod run;
pub mod snapshot;
pub mod study;
#[cfg(test)]
mod testing;

pub use cowlab_document::{
    Axis, Block, Cell, Column, Document, Drawing, Finding, Kind, Plot, Rows, Section, Series,
    Table, csv, document, fmt, html, plain, terminal,
};
pub use run::of_bench;
