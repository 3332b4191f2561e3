// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured, as people read it: a self-contained HTML page, terminal text and CSV.
//!
//! [`document`] is what a report says; [`html`], [`terminal`] and [`csv`] are how it looks.

pub mod blame;
pub mod casper;
mod cells;
pub mod comparison;
mod configuration;
pub mod csv;
mod distribution;
pub mod document;
pub mod emulated;
mod facts;
pub mod figures;
pub mod firefox;
mod flame;
pub mod fleet;
pub mod footprint;
pub mod fork_study;
pub mod html;
mod inline;
pub mod kernel;
pub mod machine_profile;
mod papers;
mod plot;
pub mod programs;
pub mod redis;
mod rows;
mod run;
pub mod snapshot;
pub mod study;
pub mod tend;
pub mod terminal;
#[cfg(test)]
mod testing;
pub mod trace;

pub use cowlab_schema::fmt;
pub use document::{
    Axis, Block, Cell, Column, Document, Drawing, Finding, Kind, Plot, Section, Series, Table,
};
pub use rows::Rows;
pub use run::of_bench;
