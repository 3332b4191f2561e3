// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The instrumented copy: the original's bytes with insertions, and nothing else.

use crate::analyse::analyse_for;
use crate::{Error, Function, Selection, Target};

/// Text that a copy has and its original has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insertion {
    /// Offset in the original before which it stands.
    pub at: usize,
    pub text: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// All functions found, in order.
    pub functions: Vec<Function>,
    /// What was inserted, in order; nothing where no function is instrumented.
    pub insertions: Vec<Insertion>,
    pub bytes: Vec<u8>,
}

/// Instrument a source. `path` is what debuggers and `__FILE__` shall call it: the original's, as
/// it was named.
pub fn instrument(source: &[u8], path: &[u8], selection: &Selection) -> Result<Copy, Error> {
    let mut functions = analyse_for(source, selection.target)?;
    for function in &mut functions {
        if function.left_alone.is_none() {
            function.not_selected = selection.refuses(function);
        }
    }
    let mut count = 0;
    let unit = unit_name(path, &functions);
    let mut insertions = Vec::new();
    let mut table = Vec::new();
    for function in functions.iter_mut().filter(|function| is_wanted(function)) {
        function.identifier = Some(format!("{unit}:{count}"));
        let text = format!(" CASPER_FUNCTION({unit}, {count});").into_bytes();
        insertions.push(Insertion { at: function.insert_at, text });
        let name = escaped(function.name.as_bytes());
        table.extend(
            [b"\t{ \"", &name[..], format!("\", {} }},\n", function.line).as_bytes()].concat(),
        );
        count += 1;
    }
    if count > 0 {
        let path = escaped(path);
        let start = if source.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let header = match selection.target {
            Target::Program => "casper/insert.h",
            Target::Kernel => "linux/casper.h",
        };
        let before = [
            format!("#include <{header}>\nCASPER_UNIT({unit});\n#line 1 \"").as_bytes(),
            &path,
            b"\"\n",
        ]
        .concat();
        insertions.insert(0, Insertion { at: start, text: before });
        // A header may be included more than once by one file, and then its table comes once.
        let after = [
            format!("\n#ifndef {unit}_end\n#define {unit}_end\n").as_bytes(),
            format!("static const struct casper_function {unit}_functions[] = {{\n").as_bytes(),
            &table,
            format!("}};\nCASPER_UNIT_END({unit}, \"").as_bytes(),
            &path,
            format!("\", {unit}_functions)\n#endif\n").as_bytes(),
        ]
        .concat();
        insertions.push(Insertion { at: source.len(), text: after });
    }
    let bytes = apply(source, &insertions);
    Ok(Copy { functions, insertions, bytes })
}

fn is_wanted(function: &Function) -> bool {
    function.left_alone.is_none() && function.not_selected.is_none()
}

fn apply(source: &[u8], insertions: &[Insertion]) -> Vec<u8> {
    let added: usize = insertions.iter().map(|insertion| insertion.text.len()).sum();
    let mut bytes = Vec::with_capacity(source.len() + added);
    let mut from = 0;
    for insertion in insertions {
        bytes.extend(&source[from..insertion.at]);
        bytes.extend(&insertion.text);
        from = insertion.at;
    }
    bytes.extend(&source[from..]);
    bytes
}

/// As the inside of a string of C. Octal escapes, since a hexadecimal one has no end.
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'"' | b'\\' => escaped.extend([b'\\', byte]),
            // Not a trigraph.
            b'?' | 0..=0x1f | 0x7f => escaped.extend(format!("\\{byte:03o}").bytes()),
            _ => escaped.push(byte),
        }
    }
    escaped
}

/// A name for the file's table that no other file's has: a hash (64-bit FNV-1a) of its path and of
/// what is in it, so that copies made in different ways never share a table.
fn unit_name(path: &[u8], functions: &[Function]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes.iter().chain(b"\n") {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    add(path);
    for function in functions.iter().filter(|function| is_wanted(function)) {
        add(function.name.as_bytes());
        add(&function.line.to_le_bytes());
    }
    format!("casper_unit_{hash:016x}")
}
