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
        // The library takes each field for what the format says it is, whatever the head says, and
        // goes on at the file's end as if there were zeros: what is told otherwise is refused.
        while let (field, kind) = rest.field(&mut id)?
            && kind != 0
        {
            match (field, kind) {
                (2 | 3, 5) => sizes[field - 2] = Some(rest.size()?),
                // The page's type, and its checksum.
                (1 | 4, 5) => drop(rest.number()?),
                // What is told of data, of a dictionary and of data in the second version: so many
                // figures, and then perhaps a truth value.
                (5, 12) => rest.skip_figures(4, false)?,
                (7, 12) => rest.skip_figures(2, true)?,
                (8, 12) => rest.skip_figures(6, true)?,
                _ => return None,
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

    /// A field's number and kind; kind 0 ends a structure.
    fn field(&mut self, id: &mut usize) -> Option<(usize, u8)> {
        let head = self.byte()?;
        // One that is out of order could be told twice.
        if head != 0 && head < 16 {
            return None;
        }
        *id += usize::from(head >> 4);
        Some((*id, head & 15))
    }

    /// A structure of 32-bit figures and, after them, a truth value: ours holds no statistics.
    fn skip_figures(&mut self, figures: usize, has_flag: bool) -> Option<()> {
        let mut id = 0;
        loop {
            match self.field(&mut id)? {
                (_, 0) => return Some(()),
                (it, 1 | 2) if has_flag && it == figures + 1 => {}
                (it, 5) if it <= figures => drop(self.number()?),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_both_sizes_once() {
        // Kind 0; 64 bytes of 4; a structure with a figure and a flag, as of a dictionary.
        let bytes = [0x15, 0, 0x15, 0x80, 1, 0x15, 8, 0x4c, 0x15, 2, 0x21, 0, 0];
        let head = Head::parse(&bytes).unwrap();
        assert_eq!((head.bytes, head.packed, head.unpacked), (13, 4, 64));
        for cut in 0..bytes.len() {
            assert!(Head::parse(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        // Negative, twice, a list, a text in a structure, a figure where a structure belongs, and a
        // truth value where a figure does: the library would read on for a number.
        for bytes in [
            &[0x15, 0, 0x15, 1, 0x15, 8, 0][..],
            &[0x25, 8, 5, 4, 9, 0x15, 8, 0],
            &[0x19, 0],
            &[0x15, 0, 0x15, 8, 0x15, 8, 0x2c, 0x18, 1, b'a', 0, 0],
            &[0x15, 0, 0x15, 8, 0x15, 8, 0x25, 0, 0],
            &[0x15, 0, 0x15, 8, 0x15, 8, 0x2c, 0x11, 0, 0],
        ] {
            assert!(Head::parse(bytes).is_none(), "{bytes:?}");
        }
    }
}
