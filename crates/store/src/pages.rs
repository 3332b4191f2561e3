// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The heads of a Parquet file's pages. The library allocates what a head declares before it unpacks
//! the page: some kilobytes would take 2 GiB.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use parquet::file::metadata::ParquetMetaData;

/// More than snappy makes of a byte: 64 of 3.
const MOST_UNPACKED: u64 = 32;
/// More than our heads have; they hold no statistics.
const MOST_HEAD_BYTES: usize = 4096;

/// The largest page as it is unpacked; an error where one cannot be what it declares.
pub(crate) fn largest(file: &File, metadata: &ParquetMetaData) -> Result<u64> {
    let mut largest = 0;
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let (mut at, length) = column.byte_range();
        let end = at.checked_add(length).context("a column without an end")?;
        while at < end {
            let mut bytes = [0; MOST_HEAD_BYTES];
            let read = file.read_at(&mut bytes, at)?;
            let head = Head::parse(&bytes[..read]).context("a page without a head")?;
            // What is empty has a few bytes that say so.
            let is_possible = head.unpacked <= MOST_UNPACKED * (head.packed + 1);
            ensure!(is_possible, "a page of {} bytes cannot hold {}", head.packed, head.unpacked);
            largest = largest.max(head.unpacked);
            at += head.bytes + head.packed;
        }
    }
    Ok(largest)
}

/// PageHeader of parquet.thrift, as far as it is about sizes.
struct Head {
    bytes: u64,
    packed: u64,
    unpacked: u64,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Head> {
        let mut rest = Compact(bytes);
        let (mut id, mut sizes) = (0, [None; 2]);
        loop {
            let field = rest.byte()?;
            match (field >> 4, field & 15) {
                (0, 0) => break,
                // Out of order: one could be told twice.
                (0, _) => return None,
                (more, kind) => {
                    id += usize::from(more);
                    match sizes.get_mut(id.wrapping_sub(2)) {
                        Some(size) if kind == 5 => *size = Some(rest.size()?),
                        _ => rest.skip(kind, 0)?,
                    }
                }
            }
        }
        let bytes = (bytes.len() - rest.0.len()) as u64;
        Some(Head { bytes, packed: sizes[1]?, unpacked: sizes[0]? })
    }
}

/// Thrift's compact protocol.
struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    }

    /// An i32 that is not negative: its sign is the lowest bit.
    fn size(&mut self) -> Option<u64> {
        self.number()
            .filter(|number| number % 2 == 0 && *number <= u64::from(u32::MAX))
            .map(|it| it / 2)
    }

    /// What a head holds besides: no lists, no maps.
    fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        match kind {
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.number()?),
            7 => drop(self.0.split_off(..8)?),
            8 => {
                let length = usize::try_from(self.number()?).ok()?;
                self.0.split_off(..length)?;
            }
            12 if depth < 4 => loop {
                match self.byte()? {
                    0 => break,
                    field => {
                        if field < 16 {
                            self.number()?;
                        }
                        self.skip(field & 15, depth + 1)?;
                    }
                }
            },
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_both_sizes_once() {
        // Kind 0; 64 bytes of 4; a structure with a flag and a text, as of a data page.
        let bytes = [0x15, 0, 0x15, 0x80, 1, 0x15, 8, 0x2c, 0x11, 0x18, 2, b'a', b'b', 0, 0];
        let head = Head::parse(&bytes).unwrap();
        assert_eq!((head.bytes, head.packed, head.unpacked), (15, 4, 64));
        for cut in 0..bytes.len() {
            assert!(Head::parse(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        // Negative, twice, and a list.
        for bytes in
            [&[0x15, 0, 0x15, 1, 0x15, 8, 0][..], &[0x25, 8, 5, 4, 9, 0x15, 8, 0], &[0x19, 0]]
        {
            assert!(Head::parse(bytes).is_none(), "{bytes:?}");
        }
    }
}
