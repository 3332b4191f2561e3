// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Event types: what their fields are called and what they hold.

use std::sync::LazyLock;

use zerocopy::FromBytes;

use crate::record::*;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A count or the like.
    Unsigned,
    /// May be below 0.
    Signed,
    /// IEEE 754, of 4 or 8 bytes.
    Float,
    /// Shown in base 16.
    Address,
    /// Bytes up to a NUL or the field's end.
    Text,
}

/// A field of an event type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldType {
    /// Its name.
    pub name: String,
    /// Its unit; empty where it has none.
    pub unit: String,
    /// Where it begins in the event.
    pub offset: u32,
    /// Of one element; of text, all of it.
    pub size: u32,
    /// Elements of an array, else 1.
    pub count: u32,
    /// What it holds.
    pub kind: FieldKind,
}

/// An event type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    /// Its number.
    pub event_type: u16,
    /// Its name.
    pub name: String,
    /// sizeof the event.
    pub event_bytes: u32,
    /// Its fields.
    pub fields: Vec<FieldType>,
}

impl EventType {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&FieldType> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// From the content of a `CASPER_META_TYPE`. Fields that no event can hold are left out.
    pub(super) fn parse(content: &[u8]) -> Option<EventType> {
        let (head, mut rest) = casper_meta_type::read_from_prefix(content).ok()?;
        let mut raw = Vec::new();
        for _ in 0..head.field_count {
            let (field, after) = casper_meta_field::read_from_prefix(rest).ok()?;
            raw.push(field);
            rest = after;
        }
        let mut texts = Texts(rest);
        let name = texts.next()?;
        let mut fields = Vec::new();
        for field in raw {
            let (name, unit) = (texts.next()?, texts.next()?);
            let kind = match field.kind {
                CASPER_UNSIGNED => FieldKind::Unsigned,
                CASPER_SIGNED => FieldKind::Signed,
                CASPER_FLOAT => FieldKind::Float,
                CASPER_ADDRESS => FieldKind::Address,
                CASPER_TEXT => FieldKind::Text,
                _ => continue,
            };
            let good = match kind {
                FieldKind::Text => field.size > 0,
                FieldKind::Float => matches!(field.size, 4 | 8),
                _ => matches!(field.size, 1 | 2 | 4 | 8),
            };
            let bytes = u64::from(field.size) * u64::from(field.count);
            if good && field.count > 0 && bytes <= u64::from(CASPER_EVENT_MAX) {
                let (offset, size, count) = (field.offset, field.size, field.count);
                fields.push(FieldType { name, unit, offset, size, count, kind });
            }
        }
        let (event_type, event_bytes) = (head.event_type, head.event_bytes);
        Some(EventType { event_type, name, event_bytes, fields })
    }
}

/// Texts one after the other, each ended by a NUL.
pub(super) struct Texts<'a>(pub &'a [u8]);

impl Texts<'_> {
    /// `None` where no NUL is left.
    pub fn next(&mut self) -> Option<String> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = &self.0[end + 1..];
        Some(text)
    }
}

/// CASPER's own types.
pub(super) static OWN: LazyLock<[EventType; 4]> = LazyLock::new(|| {
    let own = |number: u32, name: &str, bytes: usize, fields: &[(&str, u32, u32, FieldKind)]| {
        let fields = fields.iter().map(|&(name, offset, size, kind)| FieldType {
            name: name.to_owned(),
            unit: String::new(),
            offset,
            size,
            count: 1,
            kind,
        });
        EventType {
            event_type: number as u16,
            name: name.to_owned(),
            event_bytes: bytes as u32,
            fields: fields.collect(),
        }
    };
    use FieldKind::{Address, Unsigned};
    [
        own(
            CASPER_ENTER,
            "enter",
            size_of::<casper_enter>(),
            &[("function", 8, 4, Unsigned), ("call_site", 12, 4, Address)],
        ),
        own(CASPER_EXIT, "exit", size_of::<casper_exit>(), &[("function", 4, 4, Unsigned)]),
        own(
            CASPER_ENTER_ADDRESS,
            "enter-address",
            size_of::<casper_enter_address>(),
            &[("function", 8, 8, Address), ("call_site", 16, 8, Address)],
        ),
        own(
            CASPER_EXIT_ADDRESS,
            "exit-address",
            size_of::<casper_exit_address>(),
            &[("function", 8, 8, Address)],
        ),
    ]
});
