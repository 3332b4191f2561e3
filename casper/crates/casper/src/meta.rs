// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metadata: the list of entries that says what processes, types, functions and modules there are.

mod tables;
mod types;

use zerocopy::FromBytes;

pub use tables::{Function, Metadata, Module, Origin, Process};
pub use types::{EventType, FieldKind, FieldType};

use crate::record::*;

/// One entry of the list.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its header.
    pub head: casper_meta,
    /// Its content, without padding; of an entry that was never committed, what is there of it.
    pub content: &'a [u8],
}

/// The entries of a list. Ends at what is no entry.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

/// Walk over metadata.
pub fn entries(bytes: &[u8]) -> Entries<'_> {
    Entries { rest: bytes }
}

impl Entries<'_> {
    /// Bytes that are left: after the last entry, those that are no entry.
    pub fn rest_bytes(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (head, _) = casper_meta::read_from_prefix(self.rest).ok()?;
        let size = head.size as usize;
        let header = size_of::<casper_meta>();
        if size < header || !size.is_multiple_of(8) || size > self.rest.len() {
            return None;
        }
        let (entry, rest) = self.rest.split_at(size);
        self.rest = rest;
        let length = (head.length as usize).min(size - header);
        Some(Entry { head, content: &entry[header..header + length] })
    }
}

/// Bytes of the whole entries at the begin of `bytes` that fit into `most` bytes.
pub fn entries_within(bytes: &[u8], most: usize) -> usize {
    let mut walk = entries(bytes);
    let mut end = 0;
    while walk.next().is_some() {
        let next = bytes.len() - walk.rest_bytes();
        if next > most {
            break;
        }
        end = next;
    }
    end
}
