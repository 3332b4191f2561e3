// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of `bpf/record.h` in Rust.

mod bindings;
#[cfg(test)]
#[allow(clippy::type_complexity, clippy::unnecessary_cast)]
mod layout;

pub use bindings::*;

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
        assert!(STRUCTURES.len() == 5 && CONSTANTS.len() > 12, "the lists are whole");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("layout.c");
        std::fs::write(&file, &source).unwrap();
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf");
        let out = Command::new("cc")
            .args(["-std=c11", "-fsyntax-only", "-I", include])
            .arg(&file)
            .output()
            .expect("a C compiler");
        assert!(out.status.success(), "make bindings?\n{}", String::from_utf8_lossy(&out.stderr));
    }
}
