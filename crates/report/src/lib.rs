// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured, as people read it: a self-contained HTML page, terminal text and CSV.
//!
//! [`document`] is what a report says; [`html`], [`terminal`] and [`csv`] are how it looks.

pub mod casper;
pub mod csv;
pub mod document;
pub mod emulated;
pub mod figures;
pub mod fmt;
pub mod fork_study;
pub mod html;
mod plot;
pub mod study;
pub mod terminal;
pub mod trace;

// Analysis: from a run's samples to a document.

pub use document::{Axis, Block, Cell, Column, Document, Finding, Plot, Section, Series, Table};
