// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `insert`: finds the functions of C sources and their exits, and writes copies that tell CASPER
//! of both. See casper/docs/insert.md and docs/decisions/0008-insert.md.

mod analyse;
mod facts;
mod failure;
mod files;
mod header;
mod inputs;
mod lex;
mod names;
mod read;
mod rewrite;
mod select;
mod write;

use serde::Serialize;

pub use crate::analyse::analyse;
pub use crate::failure::Failure;
pub use crate::files::{FileReport, InsertPlan};
pub use crate::inputs::InsertSettings;
pub use crate::rewrite::{Copy, Insertion, instrument};
pub use crate::select::{Selection, Target};

pub const SOURCE_BYTES_MAX: usize = 64 << 20;

/// What is wrong with one source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not parse.
    #[error("line {line}: it does not parse: {what}")]
    Syntax {
        /// Physical line, from 1.
        line: u32,
        what: String,
    },
    #[error("line {0}: it was instrumented already; give the original")]
    Instrumented(u32),
    /// It is larger than [`SOURCE_BYTES_MAX`].
    #[error("it has {0} bytes; the largest source is {SOURCE_BYTES_MAX}")]
    TooLarge(usize),
}

/// How a function can be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitKind {
    Return,
    End,
    /// A call of a function that does not return.
    Noreturn,
}

/// A place where a function is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Exit {
    /// Physical line, from 1.
    pub line: u32,
    pub kind: ExitKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Function {
    /// Its name, as far as it is known.
    pub name: String,
    /// Line of its name, from 1.
    pub line: u32,
    pub end_line: u32,
    /// Lines from the one that its definition begins on (its type, or what comes before that) to
    /// the one of its closing brace, both included, comments and empty lines too.
    pub lines: u32,
    /// Where it is left, in order.
    pub exits: Vec<Exit>,
    /// Unit and place in it: known once it is instrumented.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identifier: Option<String>,
    /// Why it was not selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_selected: Option<String>,
    /// Why it is left alone though it may be selected; absent where it is instrumented.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_alone: Option<String>,
    /// Byte after which its scope is declared.
    #[serde(skip)]
    pub insert_at: usize,
}
