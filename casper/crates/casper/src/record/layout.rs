// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For tests: whether `bindings.rs` says of a header what the C compiler says. Observe's tests use it too.

use std::process::Command;

const HEAD: &str = r#"#include <stddef.h>
#include <stdint.h>
#include "record.h"
typedef uint8_t rust_u8; typedef uint16_t rust_u16;
typedef uint32_t rust_u32; typedef int32_t rust_i32;
typedef uint64_t rust_u64; typedef int64_t rust_i64;
#define SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)
#define SAME_SIZE(x) SAME(sizeof(struct x), sizeof(rust_##x))
#define SAME_FIELD(x, f) SAME(offsetof(struct x, f), offsetof(rust_##x, f)); \
    SAME(sizeof((struct x *)0)->f, sizeof((rust_##x *)0)->f)
"#;

/// Have the C compiler compare each structure, field and constant of `bindings` with `record.h` in
/// `include`; how many structures and constants there are.
///
/// Rust lays its structures out as C would: they are `repr(C)`.
pub fn compared(bindings: &str, include: &str) -> (usize, usize) {
    let mut types = String::new();
    let mut claims = String::new();
    let (mut structures, mut constants) = (0, 0);
    let (mut structure, mut aligned) = ("", "1");
    for line in bindings.lines() {
        let words: Vec<&str> = line.split([' ', ':', ';']).collect();
        if let Some(bytes) = line.strip_prefix("#[repr(align(") {
            aligned = bytes.trim_end_matches([')', ']']);
        } else if let ["pub", "const", name, "", kind, ..] = words[..] {
            // Not the text among them, which C has as a literal.
            if let Some((_, value)) = line.split_once(" = ").filter(|_| !kind.starts_with('&')) {
                constants += 1;
                let value = value.trim_end_matches(';').replace("u64::MAX", "~0ULL");
                claims += &format!("SAME({name}, {value});\n");
            }
        } else if let ["pub", "struct", name, ..] = words[..] {
            (structures, structure) = (structures + 1, name);
            types += "typedef struct {\n";
        } else if let ["", "", "", "", "pub", field, "", ..] = words[..] {
            let of = line.split_once(": ").unwrap().1.trim_end_matches(',');
            let array =
                of.strip_prefix('[').and_then(|of| of.strip_suffix("usize]")?.split_once("; "));
            let (of, length) = array.unwrap_or((of, "1"));
            types += &format!("rust_{of} {field}[{length}];\n");
            // Not what the bindings add between a structure's own fields.
            if !field.starts_with("__bindgen") {
                claims += &format!("SAME_FIELD({structure}, {field});\n");
            }
        } else if line == "}" {
            types += &format!("}} __attribute__((aligned({aligned}))) rust_{structure};\n");
            claims += &format!("SAME_SIZE({structure});\n");
            aligned = "1";
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.c");
    std::fs::write(&file, [HEAD, &types, &claims].concat()).unwrap();
    let out = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-I", include])
        .arg(&file)
        .output()
        .expect("a C compiler");
    assert!(out.status.success(), "make bindings?\n{}", String::from_utf8_lossy(&out.stderr));
    (structures, constants)
}
