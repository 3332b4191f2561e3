// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of an event: from bytes to values. Safe on any bytes and any description.

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Unsigned.
    Unsigned,
    /// Signed.
    Signed,
    /// IEEE 754.
    Float,
    /// Unsigned, shown in base 16.
    Address,
    /// Bytes up to a NUL or the field's end.
    Text,
}

/// A field of an event type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its unit; empty for none.
    pub unit: String,
    /// Where it begins in the event.
    pub offset: u32,
    /// Size of one element: 1, 2, 4 or 8; of text, all of it.
    pub size: u32,
    /// Elements of an array, else 1.
    pub count: u32,
    /// What it holds.
    pub kind: Kind,
}

/// What stood in a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of an unsigned field.
    Unsigned(u64),
    /// Of a signed field.
    Signed(i64),
    /// Of a float.
    Float(f64),
    /// Of an address.
    Address(u64),
    /// Of text; what is not UTF-8 is replaced.
    Text(String),
    /// Of an array.
    Array(Vec<Value>),
}

impl Field {
    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        self.count > 1 && self.kind != Kind::Text
    }

    /// Its value in an event; `None` where the event is too short, or the field makes no sense.
    pub fn value(&self, event: &[u8]) -> Option<Value> {
        let (offset, size) = (self.offset as usize, self.size as usize);
        if self.kind == Kind::Text {
            let bytes = event.get(offset..offset.checked_add(size)?)?;
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(size);
            return Some(Value::Text(String::from_utf8_lossy(&bytes[..end]).into_owned()));
        }
        let all = event.get(offset..offset.checked_add(size.checked_mul(self.count as usize)?)?)?;
        if !self.is_array() {
            return number(self.kind, all);
        }
        all.chunks_exact(size.max(1))
            .map(|bytes| number(self.kind, bytes))
            .collect::<Option<_>>()
            .map(Value::Array)
    }
}

/// A number in this machine's byte order.
fn number(kind: Kind, bytes: &[u8]) -> Option<Value> {
    macro_rules! read {
        ($unsigned:ty, $signed:ty) => {{
            let bytes = bytes.try_into().ok()?;
            match kind {
                Kind::Signed => Value::Signed(<$signed>::from_ne_bytes(bytes).into()),
                Kind::Address => Value::Address(<$unsigned>::from_ne_bytes(bytes).into()),
                _ => Value::Unsigned(<$unsigned>::from_ne_bytes(bytes).into()),
            }
        }};
    }
    Some(match (kind, bytes.len()) {
        (Kind::Float, 4) => Value::Float(f32::from_ne_bytes(bytes.try_into().ok()?).into()),
        (Kind::Float, 8) => Value::Float(f64::from_ne_bytes(bytes.try_into().ok()?)),
        (Kind::Float, _) => return None,
        (_, 1) => read!(u8, i8),
        (_, 2) => read!(u16, i16),
        (_, 4) => read!(u32, i32),
        (_, 8) => read!(u64, i64),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(offset: u32, size: u32, count: u32, kind: Kind) -> Field {
        Field { name: "f".into(), unit: String::new(), offset, size, count, kind }
    }

    #[test]
    fn fields_have_the_type_that_was_registered() {
        let mut event = vec![1, 0];
        event.extend((-2i16).to_ne_bytes());
        event.extend(7u32.to_ne_bytes());
        event.extend(1.5f64.to_ne_bytes());
        event.extend(*b"text\0rest");
        let value = |offset, size, count, kind| field(offset, size, count, kind).value(&event);
        assert_eq!(value(2, 2, 1, Kind::Signed), Some(Value::Signed(-2)));
        assert_eq!(value(2, 2, 1, Kind::Unsigned), Some(Value::Unsigned(0xfffe)));
        assert_eq!(value(4, 4, 1, Kind::Address), Some(Value::Address(7)));
        assert_eq!(value(8, 8, 1, Kind::Float), Some(Value::Float(1.5)));
        assert_eq!(value(16, 9, 1, Kind::Text), Some(Value::Text("text".into())));
        assert_eq!(
            value(0, 2, 2, Kind::Signed),
            Some(Value::Array(vec![Value::Signed(1), Value::Signed(-2)]))
        );
    }

    #[test]
    fn nonsense_is_no_value() {
        let event = [1, 0, 3, 4];
        for nonsense in [
            field(0, 3, 1, Kind::Unsigned),
            field(2, 4, 1, Kind::Signed),
            field(u32::MAX, 8, u32::MAX, Kind::Float),
            field(u32::MAX, u32::MAX, 1, Kind::Text),
            field(0, 2, 1, Kind::Float),
            field(0, 0, 4, Kind::Unsigned),
        ] {
            let value = nonsense.value(&event);
            assert!(matches!(value, None | Some(Value::Array(_))), "{nonsense:?}: {value:?}");
        }
    }
}
