// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How figures are written for people: in this one place, for every renderer.

/// Significant digits where nothing else is asked for.
pub const DIGITS: usize = 3;

/// A divisor and the unit that is left after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// What raw values are divided by.
    pub divisor: f64,
    /// Written straight after the figure, with its space: `" µs"`, `"%"`.
    pub suffix: &'static str,
}

const NONE: Scale = Scale { divisor: 1.0, suffix: "" };
const KIB: f64 = 1024.0;

/// Largest first; the last one takes everything smaller.
const TIME: [Scale; 4] = [
    Scale { divisor: 1e9, suffix: " s" },
    Scale { divisor: 1e6, suffix: " ms" },
    Scale { divisor: 1e3, suffix: " µs" },
    Scale { divisor: 1.0, suffix: " ns" },
];
const BYTES: [Scale; 5] = [
    Scale { divisor: KIB * KIB * KIB * KIB, suffix: " TiB" },
    Scale { divisor: KIB * KIB * KIB, suffix: " GiB" },
    Scale { divisor: KIB * KIB, suffix: " MiB" },
    Scale { divisor: KIB, suffix: " KiB" },
    Scale { divisor: 1.0, suffix: " B" },
];
const PLAIN: [Scale; 5] = [
    Scale { divisor: 1e18, suffix: " E" },
    Scale { divisor: 1e12, suffix: " T" },
    Scale { divisor: 1e9, suffix: " G" },
    Scale { divisor: 1e6, suffix: " M" },
    NONE,
];
const RATE: [Scale; 5] = [
    Scale { divisor: 1e12, suffix: " T/s" },
    Scale { divisor: 1e9, suffix: " G/s" },
    Scale { divisor: 1e6, suffix: " M/s" },
    Scale { divisor: 1e3, suffix: " k/s" },
    Scale { divisor: 1.0, suffix: "/s" },
];
const BYTE_RATE: [Scale; 5] = [
    Scale { suffix: " TiB/s", ..BYTES[0] },
    Scale { suffix: " GiB/s", ..BYTES[1] },
    Scale { suffix: " MiB/s", ..BYTES[2] },
    Scale { suffix: " KiB/s", ..BYTES[3] },
    Scale { suffix: " B/s", ..BYTES[4] },
];
const FRACTION: [Scale; 1] = [Scale { divisor: 0.01, suffix: "%" }];
const PERCENT: [Scale; 1] = [Scale { divisor: 1.0, suffix: "%" }];

/// The scale in which `value`, raw in `unit`, reads best. Unknown units are only shortened.
pub fn scale_for(value: f64, unit: &str) -> Scale {
    let scales: &[Scale] = match base(unit) {
        "ns" => &TIME,
        "bytes" => &BYTES,
        "per_s" => &RATE,
        "bytes_per_s" => &BYTE_RATE,
        "fraction" => &FRACTION,
        "percent" | "%" => &PERCENT,
        _ => &PLAIN,
    };
    let fits = |scale: &&Scale| round(value.abs() / scale.divisor) >= 1.0;
    *scales.iter().find(fits).unwrap_or(&scales[scales.len() - 1])
}

/// A value in its unit, scaled: `11.8 ms`, `4.00 KiB`, `12.5%`, `1,230`.
pub fn quantity(value: f64, unit: &str) -> String {
    in_scale(value, scale_for(value, unit))
}

/// A size: `596 MiB`.
pub fn bytes(value: u64) -> String {
    quantity(value as f64, "bytes")
}

/// A round value beside an axis, without zeros that say nothing: `10 µs`, `4 KiB`.
pub fn tick(value: f64, unit: &str) -> String {
    let scale = scale_for(value, unit);
    let digits = number(value / scale.divisor);
    let short = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        &digits
    };
    format!("{short}{}", scale.suffix)
}

/// A value with its interval, all three in one scale: `2.13 µs (2.05 to 2.21)`.
pub fn estimate(value: f64, low: f64, high: f64, unit: &str) -> String {
    let main = quantity(value, unit);
    if !(low.is_finite() && high.is_finite()) {
        return main;
    }
    let divisor = scale_for(value, unit).divisor;
    format!("{main} ({} to {})", number(low / divisor), number(high / divisor))
}

/// A value in a scale chosen beforehand.
pub fn in_scale(value: f64, scale: Scale) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    format!("{}{}", number(value / scale.divisor), scale.suffix)
}

/// 3 significant digits in plain decimals, thousands grouped; never an exponent.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = round(value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    if magnitude >= 1e21 {
        return if value < 0.0 { "< -1,000 E".into() } else { "> 1,000 E".into() };
    }
    // `log10` of a value rounded to 3 digits is far enough from the next integer to be safe.
    let exponent = magnitude.log10().floor() as i32;
    let decimals = (DIGITS as i32 - 1 - exponent).max(0) as usize;
    if decimals > 12 {
        return format!("{sign}0.000");
    }
    let text = format!("{magnitude:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |parts| parts);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{rest}", grouped(whole))
}

/// An exact count with its thousands grouped: `262,144`.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// So many: `1 child`, `2,048 children`.
pub fn several(value: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { more })
}

/// A number of bytes, short: `16 MiB`.
pub fn size(bytes: u64) -> String {
    tick(bytes as f64, "bytes")
}

/// A heap: whole MiB as such, else as Smith & Maguire (1988) has it, in decimal units: 316 MB is
/// what it chose, not 302 MiB.
pub fn heap_size(bytes: u64) -> String {
    match bytes {
        0 => "none".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => size(bytes),
        1..1_000_000 => format!("{} kB", number(bytes as f64 / 1e3)),
        _ => format!("{} MB", number(bytes as f64 / 1e6)),
    }
}

/// A time.
pub fn time(ns: f64) -> String {
    quantity(ns, "ns")
}

/// A long time, of which two units say enough: `45 s`, `12 min`, `1 h 40 min`, `3 d 2 h`.
pub fn age(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".into();
    }
    let two = |large: u64, small: u64, names: [&str; 2]| match small {
        0 => format!("{} {}", grouped(&large.to_string()), names[0]),
        _ => format!("{} {} {small} {}", grouped(&large.to_string()), names[0], names[1]),
    };
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        _ if seconds < 99.5 => format!("{} s", seconds.round()),
        0..100 => format!("{minutes} min"),
        100..2880 => two(minutes / 60, minutes % 60, ["h", "min"]),
        _ => two(minutes / 1440, minutes % 1440 / 60, ["d", "h"]),
    }
}

/// A share.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.000_5 {
        return "less than 0.1%".to_owned();
    }
    quantity(share, "fraction")
}

/// What a column head says of a unit that its cells do not carry: `per page` of `ns_per_page`.
pub fn unit_label(unit: &str) -> String {
    let rest = match base(unit) {
        base @ ("ns" | "bytes") => &unit[base.len()..],
        "per_s" | "bytes_per_s" | "fraction" | "percent" | "%" => "",
        _ => unit,
    };
    rest.trim_matches('_').replace('_', " ")
}

/// A text that begins a sentence.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `ns` of `ns_per_page`: the part of a unit that is scaled.
pub fn base(unit: &str) -> &str {
    ["bytes_per_s", "ns", "bytes"]
        .into_iter()
        .find(|base| unit.strip_prefix(base).is_some_and(|r| r.is_empty() || r.starts_with('_')))
        .unwrap_or(unit)
}

/// Rounds to 3 significant digits, so that 999.9 ns is written as 1.00 µs.
fn round(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_never_an_exponent() {
        let cases = [
            (0.0, "0"),
            (1.0, "1.00"),
            (-2.5, "-2.50"),
            (0.00001234, "0.0000123"),
            (9.999, "10.0"),
            (999.4, "999"),
            (12345.0, "12,300"),
            (1e20, "100,000,000,000,000,000,000"),
            (1e-30, "0.000"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value}");
        }
        for exponent in -40..40 {
            let text = number(1.234_f64 * 10f64.powi(exponent));
            assert!(!text.contains('e'), "{text}");
        }
    }

    #[test]
    fn units_scale() {
        let cases = [
            (0.4, "ns", "0.400 ns"),
            (999.9, "ns", "1.00 µs"),
            (2130.0, "ns_per_page", "2.13 µs"),
            (11.8e6, "ns", "11.8 ms"),
            (3.6e12, "ns", "3,600 s"),
            (-2130.0, "ns", "-2.13 µs"),
            (4096.0, "bytes", "4.00 KiB"),
            (1000.0, "bytes", "1,000 B"),
            (1023.9, "bytes", "1.00 KiB"),
            (1.5 * KIB * KIB * KIB, "bytes", "1.50 GiB"),
            (0.125, "fraction", "12.5%"),
            (1_234_567.0, "per_s", "1.23 M/s"),
            (2.5 * KIB * KIB * KIB, "bytes_per_s", "2.50 GiB/s"),
            (262_144.0, "pages", "262,000"),
            (5.6e6, "pages", "5.60 M"),
            (7.0, "", "7.00"),
        ];
        for (value, unit, text) in cases {
            assert_eq!(quantity(value, unit), text, "{value} {unit}");
        }
    }

    #[test]
    fn an_age_has_two_units_at_most() {
        let cases = [
            (0.2, "0 s"),
            (99.0, "99 s"),
            (99.6, "2 min"),
            (5_000.0, "83 min"),
            (6_000.0, "1 h 40 min"),
            (7_200.0, "2 h"),
            (266_400.0, "3 d 2 h"),
            (1e9, "11,574 d 1 h"),
            (f64::INFINITY, "–"),
        ];
        for (seconds, text) in cases {
            assert_eq!(age(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn an_interval_shares_its_values_scale() {
        assert_eq!(estimate(1010.0, 990.0, 1030.0, "ns"), "1.01 µs (0.990 to 1.03)");
        assert_eq!(estimate(5.0, f64::NAN, f64::NAN, "ns"), "5.00 ns");
    }

    #[test]
    fn a_heap_has_the_unit_in_which_it_was_chosen() {
        let sizes = [(0, "none"), (64 << 20, "64 MiB"), (316_000_000, "316 MB"), (4096, "4.10 kB")];
        for (bytes, text) in sizes {
            assert_eq!(heap_size(bytes), text);
        }
    }

    #[test]
    fn ticks_are_short() {
        let ticks = [
            (1e4, "ns", "10 µs"),
            (4096.0, "bytes", "4 KiB"),
            (0.05, "", "0.05"),
            (100.0, "", "100"),
        ];
        for (value, unit, text) in ticks {
            assert_eq!(tick(value, unit), text);
        }
    }

    #[test]
    fn heads_name_only_what_cells_do_not() {
        let cases = [
            ("ns", ""),
            ("ns_per_page", "per page"),
            ("pages", "pages"),
            ("fraction", ""),
            ("bytes_per_s", ""),
            ("bytes_per_fork", "per fork"),
            ("pages_per_fault", "pages per fault"),
            ("nsx", "nsx"),
        ];
        for (unit, label) in cases {
            assert_eq!(unit_label(unit), label);
        }
    }
}
