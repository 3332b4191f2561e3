// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes as people write them.

/// `64.0 GiB`, `2.0 MiB`, `512 bytes`: one decimal, binary units.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if value < 1024 {
        return format!("{value} bytes");
    }
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would print as 1024.0 of the smaller unit.
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// A page size: `4 KiB`, `2 MiB`, exact because page sizes are powers of two.
pub(crate) fn page_size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 && b % (1 << 30) == 0 => format!("{} GiB", b >> 30),
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b % (1 << 10) == 0 => format!("{} KiB", b >> 10),
        b => format!("{b} bytes"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_read_well() {
        for (value, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(super::bytes(value), text);
        }
        assert_eq!(super::page_size(65536), "64 KiB");
        assert_eq!(super::page_size(2 << 20), "2 MiB");
    }
}
