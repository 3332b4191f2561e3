// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of `casper/include/cowlab/record.h` in Rust.

mod bindings;
#[cfg(test)]
#[allow(clippy::type_complexity, clippy::unnecessary_cast)]
mod layout;

pub use bindings::*;

/// Bytes of `casper_file`, the header of a trace.
pub const FILE_BYTES: usize = size_of::<casper_file>();
/// Bytes of `casper_chunk`, the header of a chunk.
pub const CHUNK_BYTES: usize = size_of::<casper_chunk>();
/// Bytes of the word before each event.
pub const WORD_BYTES: usize = 8;

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
    use std::fmt::Write as _;
    use std::process::Command;

    use super::layout::{CONSTANTS, STRUCTURES};

    /// The C compiler confirms every size, offset and value that Rust uses.
    #[test]
    fn the_layout_is_the_headers() {
        let mut source = "#include <stddef.h>\n#include \"record.h\"\n".to_owned();
        for (name, size, fields) in STRUCTURES {
            writeln!(source, "_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");")
                .unwrap();
            for (field, offset) in *fields {
                writeln!(
                    source,
                    "_Static_assert(offsetof(struct {name}, {field}) == {offset}, \"{name}.{field}\");"
                )
                .unwrap();
            }
        }
        for (name, value) in CONSTANTS {
            writeln!(source, "_Static_assert({name} == {value}ULL, \"{name}\");").unwrap();
        }
        assert!(STRUCTURES.len() > 15 && CONSTANTS.len() > 30, "the lists are whole");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("layout.c");
        std::fs::write(&file, &source).unwrap();
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include/cowlab");
        let out = Command::new("cc")
            .args(["-std=c11", "-fsyntax-only", "-I", include])
            .arg(&file)
            .output()
            .expect("a C compiler");
        assert!(out.status.success(), "make bindings?\n{}", String::from_utf8_lossy(&out.stderr));
    }

    #[test]
    fn text_ends_at_the_nul_or_the_end() {
        assert_eq!(super::text(b"ab\0c"), b"ab");
        assert_eq!(super::text(b"abc"), b"abc");
        assert_eq!(super::text(b""), b"");
    }
}
