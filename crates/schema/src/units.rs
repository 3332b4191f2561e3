// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes as people write them.

/// Parses `16777216`, `16MiB`, `16M` (binary, as in most tools), `16MB` (decimal).
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let wrong = || format!("'{text}' is not a size: write bytes, or 64KiB, 16MiB, 1.5GiB");
    let factor = match suffix.trim() {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| format!("'{text}' is too large"));
    }
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
    if bytes.is_finite() && bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// `16MiB`, or plain bytes if no unit divides it.
pub fn bytes_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = |(shift, _): &(u32, &str)| bytes > 0 && bytes.trailing_zeros() >= *shift;
    match units.into_iter().find(fits) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("0", 0),
            ("16777216", 16_777_216),
            ("16MiB", 16_777_216),
            ("16M", 16_777_216),
            ("1.5GiB", 1_610_612_736),
            ("10MB", 10_000_000),
            ("64 KiB", 65_536),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["1GiB", "16MiB", "3KiB", "1782579", "0"] {
            assert_eq!(bytes_text(parse_bytes(text).unwrap()), text);
        }
        for text in ["", "MiB", "-1", "1.2.3M", "5 apples", "99999999999999999999", "99999999TiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
