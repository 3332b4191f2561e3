// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A record as its reader sees it: a time, whose it is, and fields with names.

use std::fmt;

use crate::meta::{EventType, FieldKind, FieldType};

/// Whose a record is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Number of the process in this trace. Unlike a pid it is not used twice.
    pub process: u32,
    /// Its pid.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// When, in ticks of the session's clock.
    pub ticks: u64,
    /// When, as CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Whose.
    pub owner: Owner,
    /// The stream that it is from.
    pub stream: u32,
    /// Signal handlers that interrupted a recording for it.
    pub level: u32,
    /// Its type's number.
    pub event_type: u16,
    /// The event as it was recorded, its type included.
    pub bytes: &'a [u8],
    /// What is known about its type.
    pub schema: Option<&'a EventType>,
}

impl<'a> Record<'a> {
    /// The field of this name, where the type has one and the event is long enough.
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        self.schema?.field(name)?.value(self.bytes)
    }

    /// All fields, in the order of the type.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let bytes = self.bytes;
        self.schema.map_or(&[][..], |schema| &schema.fields).iter().filter_map(move |field| {
            Some(Field { name: &field.name, unit: &field.unit, value: field.value(bytes)? })
        })
    }
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its unit; empty where it has none.
    pub unit: &'a str,
    /// Its value.
    pub value: Value<'a>,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// A count or the like.
    Unsigned(u64),
    /// May be below 0.
    Signed(i64),
    /// May be a fraction.
    Float(f64),
    /// A place in memory, shown in base 16.
    Address(u64),
    /// Bytes up to a NUL or the field's end.
    Text(&'a [u8]),
    /// An array of numbers.
    List(Vec<Value<'a>>),
}

impl Value<'_> {
    /// The value as a number, where it is one.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Value::Unsigned(value) | Value::Address(value) => Some(value as f64),
            Value::Signed(value) => Some(value as f64),
            Value::Float(value) => Some(value),
            Value::Text(_) | Value::List(_) => None,
        }
    }

    /// The value where it is a whole number of 0 or more.
    pub fn unsigned(&self) -> Option<u64> {
        match *self {
            Value::Unsigned(value) | Value::Address(value) => Some(value),
            Value::Signed(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unsigned(value) => value.fmt(f),
            Value::Signed(value) => value.fmt(f),
            Value::Float(value) => value.fmt(f),
            Value::Address(value) => write!(f, "{value:#x}"),
            Value::Text(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Value::List(values) => {
                for (number, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if number == 0 { "" } else { " " })?;
                }
                Ok(())
            }
        }
    }
}

impl FieldType {
    /// The field's value in an event; `None` where the event ends before it.
    pub fn value<'a>(&self, event: &'a [u8]) -> Option<Value<'a>> {
        let from = self.offset as usize;
        if self.kind == FieldKind::Text {
            let bytes = event.get(from..from.checked_add(self.size as usize)?)?;
            return Some(Value::Text(crate::record::text(bytes)));
        }
        let size = self.size as usize;
        let bytes = event.get(from..from.checked_add(size.checked_mul(self.count as usize)?)?)?;
        if self.count == 1 {
            return self.element(bytes);
        }
        Some(Value::List(bytes.chunks_exact(size).filter_map(|part| self.element(part)).collect()))
    }

    /// One number.
    fn element<'a>(&self, bytes: &[u8]) -> Option<Value<'a>> {
        let raw = match *bytes {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        };
        Some(match self.kind {
            FieldKind::Unsigned => Value::Unsigned(raw),
            FieldKind::Address => Value::Address(raw),
            FieldKind::Signed => Value::Signed(match bytes.len() {
                1 => i64::from(raw as u8 as i8),
                2 => i64::from(raw as u16 as i16),
                4 => i64::from(raw as u32 as i32),
                _ => raw as i64,
            }),
            FieldKind::Float if bytes.len() == 4 => {
                Value::Float(f64::from(f32::from_bits(raw as u32)))
            }
            FieldKind::Float if bytes.len() == 8 => Value::Float(f64::from_bits(raw)),
            FieldKind::Float | FieldKind::Text => return None,
        })
    }
}
