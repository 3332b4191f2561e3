// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of one field: how often each was recorded.

use rustc_hash::FxHashMap;

use super::pairs::Selector;
use super::{Moments, Unknown};
use crate::meta::{FieldKind, Metadata};
use crate::read::Value;

/// Different values beyond these are counted together.
const MOST_VALUES: usize = 1 << 16;

/// A value and how often it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueCount {
    /// As people read it.
    pub text: String,
    /// As a number, where it is one.
    pub number: Option<f64>,
    /// Events with it.
    pub count: u64,
}

/// The values of a field.
#[derive(Debug, Clone)]
pub struct FieldCounts {
    /// The type, as it was asked for.
    pub event: String,
    /// The field.
    pub field: String,
    /// Its unit; empty where it has none.
    pub unit: String,
    /// Each value, the most frequent first.
    pub values: Vec<ValueCount>,
    /// Events with values that were too many to be kept apart.
    pub others: u64,
    /// Events that end before the field.
    pub without: u64,
    /// The distribution of a whole number of 0 or more.
    pub numbers: Moments,
}

/// Counts while a pass goes on.
#[derive(Debug)]
pub(super) struct Counter {
    selector: Selector,
    event: String,
    field: String,
    unit: String,
    numbers: FxHashMap<(u64, u8), u64>,
    texts: FxHashMap<Box<[u8]>, u64>,
    others: u64,
    without: u64,
    moments: Moments,
}

impl Counter {
    pub fn new(metadata: &Metadata, event: &str, field: &str) -> Result<Counter, Unknown> {
        let selector = Selector::new(metadata, event)?;
        let types = metadata.types_named(event);
        let Some(found) = types.iter().find_map(|known| known.field(field)) else {
            let fields = types.iter().flat_map(|known| &known.fields);
            let mut known: Vec<&str> = fields.map(|field| field.name.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            let (event, name) = (event.to_owned(), field.to_owned());
            return Err(Unknown::Field { event, name, known: known.join(", ") });
        };
        Ok(Counter {
            selector,
            event: event.to_owned(),
            field: field.to_owned(),
            unit: found.unit.clone(),
            numbers: FxHashMap::default(),
            texts: FxHashMap::default(),
            others: 0,
            without: 0,
            moments: Moments::default(),
        })
    }

    pub fn see(&mut self, metadata: &Metadata, process: u32, event_type: u16, bytes: &[u8]) {
        if !self.selector.is(metadata, process, event_type) {
            return;
        }
        let schema = metadata.event_type(process, event_type);
        let value = schema.and_then(|s| s.field(&self.field)).and_then(|f| f.value(bytes));
        let (bits, kind) = match value {
            None => {
                self.without += 1;
                return;
            }
            Some(Value::Unsigned(value)) => (value, FieldKind::Unsigned),
            Some(Value::Address(value)) => (value, FieldKind::Address),
            Some(Value::Signed(value)) => (value as u64, FieldKind::Signed),
            Some(Value::Float(value)) => (value.to_bits(), FieldKind::Float),
            Some(Value::Text(text)) => return self.text(text),
            Some(list @ Value::List(_)) => return self.text(list.to_string().as_bytes()),
        };
        if let Some(whole) = value.and_then(|value| value.unsigned()) {
            self.moments.add(whole, true);
        }
        let full = self.numbers.len() >= MOST_VALUES;
        match self.numbers.get_mut(&(bits, kind as u8)) {
            Some(count) => *count += 1,
            None if full => self.others += 1,
            None => {
                self.numbers.insert((bits, kind as u8), 1);
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        let full = self.texts.len() >= MOST_VALUES;
        match self.texts.get_mut(text) {
            Some(count) => *count += 1,
            None if full => self.others += 1,
            None => {
                self.texts.insert(text.into(), 1);
            }
        }
    }

    pub fn finish(self) -> FieldCounts {
        let number = |&(bits, kind): &(u64, u8)| match kind {
            kind if kind == FieldKind::Signed as u8 => Value::Signed(bits as i64),
            kind if kind == FieldKind::Float as u8 => Value::Float(f64::from_bits(bits)),
            kind if kind == FieldKind::Address as u8 => Value::Address(bits),
            _ => Value::Unsigned(bits),
        };
        let numbers = self.numbers.iter().map(|(key, &count)| {
            let value = number(key);
            ValueCount { text: value.to_string(), number: value.number(), count }
        });
        let texts = self.texts.iter().map(|(text, &count)| ValueCount {
            text: String::from_utf8_lossy(text).into_owned(),
            number: None,
            count,
        });
        let mut values: Vec<ValueCount> = numbers.chain(texts).collect();
        values.sort_by(|a, b| {
            let numbers = a.number.unwrap_or(0.0).total_cmp(&b.number.unwrap_or(0.0));
            b.count.cmp(&a.count).then(numbers).then_with(|| a.text.cmp(&b.text))
        });
        FieldCounts {
            event: self.event,
            field: self.field,
            unit: self.unit,
            values,
            others: self.others,
            without: self.without,
            numbers: self.moments,
        }
    }
}
