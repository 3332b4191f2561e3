// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values that outlive the record that they stood in.

use cowlab_casper::read;
use serde::Serialize;

/// What stood in a field, or stands in a column of an export.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Of an unsigned field, or an address.
    Unsigned(u64),
    /// Of an address, shown in base 16.
    Address(u64),
    /// Of a signed field.
    Signed(i64),
    /// Of a float.
    Float(f64),
    /// Of text; what is not UTF-8 is replaced.
    Text(String),
    /// Of an array.
    List(Vec<Value>),
}

impl From<&read::Value<'_>> for Value {
    fn from(value: &read::Value<'_>) -> Value {
        match value {
            read::Value::Unsigned(value) => Value::Unsigned(*value),
            read::Value::Address(value) => Value::Address(*value),
            read::Value::Signed(value) => Value::Signed(*value),
            read::Value::Float(value) => Value::Float(*value),
            read::Value::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
            read::Value::List(values) => Value::List(values.iter().map(Value::from).collect()),
        }
    }
}
