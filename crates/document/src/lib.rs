// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A report as plain structs, and its renderers: a self-contained HTML page, terminal text and CSV.
//!
//! [`document`] is what a report says; [`html`], [`terminal`] and [`csv`] are how it looks.

pub mod cells;
pub mod csv;
pub mod document;
pub mod html;
mod inline;
pub mod output;
mod plot;
mod rows;
pub mod terminal;
pub mod usage;

pub use cowlab_schema::fmt;
pub use document::{
    Axis, Block, Cell, Column, Document, Drawing, Finding, Kind, Plot, Section, Series, Table,
};
pub use inline::plain;
pub use rows::Rows;
