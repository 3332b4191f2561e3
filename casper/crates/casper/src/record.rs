// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of `casper/include/cowlab/record.h` in Rust.

mod bindings;
#[cfg(test)]
mod layout;

pub use bindings::*;

/// Bytes of `casper_file`, the header of a trace.
pub const FILE_BYTES: usize = size_of::<casper_file>();
/// Bytes of `casper_chunk`, the header of a chunk.
pub const CHUNK_BYTES: usize = size_of::<casper_chunk>();
/// Bytes of the word before each event.
pub const WORD_BYTES: usize = 8;

impl Default for casper_chunk {
    fn default() -> casper_chunk {
        zerocopy::FromZeros::new_zeroed()
    }
}

/// `bytes` with the padding that follows it in rings, metadata and chunks.
pub const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

/// Whether a type is a note (`CASPER_SWITCH`, …), which is not counted as an event.
pub const fn is_note(event_type: u16) -> bool {
    event_type as u32 >= CASPER_SWITCH
}

/// What a `__u64` says where `CASPER_ABSENT` means that nobody knows.
pub const fn known(value: u64) -> Option<u64> {
    if value == CASPER_ABSENT { None } else { Some(value) }
}

/// The text in a field of fixed length: up to the first NUL, or all of it.
pub fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    /// The C compiler confirms every size, offset and value of the bindings.
    #[test]
    fn the_layout_is_the_headers() {
        let bindings = include_str!("record/bindings.rs");
        let (structures, constants) = super::layout::compared(bindings, "../../include/cowlab");
        assert!(structures > 15 && constants > 30, "the lists are whole");
    }

    #[test]
    fn text_ends_at_the_nul_or_the_end() {
        assert_eq!(super::text(b"ab\0c"), b"ab");
        assert_eq!(super::text(b"abc"), b"abc");
        assert_eq!(super::text(b""), b"");
    }
}
