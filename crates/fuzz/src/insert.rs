// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever bytes it gets, `insert` ends, says the same twice, and changes nothing but by adding.

use cowlab_insert::{Copy, Selection, analyse, instrument};

pub(crate) fn read(source: &[u8]) {
    let first = instrument(source, b"a.c", &Selection::default());
    let second = instrument(source, b"a.c", &Selection::default());
    assert_eq!(first, second, "the same source gives different results");
    let Ok(copy) = first else { return };
    assert_eq!(without_insertions(&copy), source, "more than insertions differs");
    check_places(&copy, source);
    check_again(&copy);
}

/// The copy's bytes with the insertions taken out.
fn without_insertions(copy: &Copy) -> Vec<u8> {
    let (mut bytes, mut from, mut added) = (Vec::new(), 0, 0);
    for insertion in &copy.insertions {
        let at = insertion.at + added;
        bytes.extend(&copy.bytes[from..at]);
        from = at + insertion.text.len();
        assert_eq!(&copy.bytes[at..from], insertion.text);
        added += insertion.text.len();
    }
    bytes.extend(&copy.bytes[from..]);
    bytes
}

fn check_places(copy: &Copy, source: &[u8]) {
    let lines = 1 + source.iter().filter(|&&byte| byte == b'\n').count() as u32;
    for function in &copy.functions {
        assert!(function.line >= 1 && function.line <= lines, "{function:?}");
        assert!(function.end_line <= lines, "{function:?}");
        assert!(function.identifier.is_some() != function.left_alone.is_some(), "{function:?}");
        for exit in &function.exits {
            assert!(exit.line >= 1 && exit.line <= lines, "{function:?}");
        }
        if function.identifier.is_some() {
            let before = &source[..function.insert_at];
            assert!(matches!(before.last(), Some(b'{' | b';' | b'%')), "{function:?}");
            assert!(!function.exits.is_empty(), "no exit: {function:?}");
        }
    }
    let whole = copy.insertions.len();
    let scopes = copy.functions.iter().filter(|function| function.identifier.is_some()).count();
    assert_eq!(whole, if scopes == 0 { 0 } else { scopes + 2 });
}

/// A copy, read again, has the instrumented functions with the same exits: what was inserted disturbs
/// nothing around it.
fn check_again(copy: &Copy) {
    if copy.insertions.is_empty() {
        return;
    }
    // A source that says things about the inserted names (declares one as noreturn, say) changes
    // what a reading of the copy makes of them.
    let name = b"CASPER_";
    let written = copy.bytes.windows(name.len()).filter(|part| part == name).count();
    let inserted = |text: &[u8]| text.windows(name.len()).filter(|part| part == name).count();
    if written != copy.insertions.iter().map(|insertion| inserted(&insertion.text)).sum::<usize>() {
        return;
    }
    // Copies are recognised and refused.
    assert!(analyse(&copy.bytes).is_err());
    // Neither its first line nor the second makes it one now.
    let find = |text: &[u8]| copy.bytes.windows(text.len()).position(|part| part == text);
    let include = find(b"#include <casper/insert.h>").expect("its first line");
    let unit = find(b"CASPER_UNIT(").expect("its second line");
    // Without the table: it is in an #if of its own, which changes the ways to read the rest.
    let table = copy.insertions.last().map_or(0, |insertion| insertion.text.len());
    let mut bytes = copy.bytes[..copy.bytes.len() - table].to_vec();
    bytes[include + 1..include + 8].copy_from_slice(b"pragma ");
    bytes[unit..unit + 11].copy_from_slice(b"CASPER_NONE");
    let again = analyse(&bytes).expect("a copy parses");
    let moved = 3;
    for old in copy.functions.iter().filter(|function| function.identifier.is_some()) {
        // A line may hold two functions of one name, one in the other.
        let same = again.iter().any(|new| {
            new.left_alone.is_none()
                && new.name == old.name
                && new.line == old.line + moved
                && new.end_line == old.end_line + moved
                && new.exits.len() == old.exits.len()
        });
        assert!(same, "lost or changed: {old:?} in {again:?}");
    }
}
