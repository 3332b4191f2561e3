// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts against saved files; `UPDATE_GOLDEN=1` saves them anew.

use std::path::Path;
use std::{env, fs};

/// Compares `actual` with tests/golden/`name`.
pub fn check(name: &str, actual: &str) {
    let path = Path::new("tests/golden").join(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, actual).expect("saving the golden file");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let pairs = expected.lines().zip(actual.lines()).enumerate();
    let differing = pairs.filter(|(_, (old, new))| old != new).map(|(index, _)| index + 1).next();
    assert!(
        expected == actual,
        "tests/golden/{name} differs, first in line {differing:?}; if that is meant: UPDATE_GOLDEN=1 cargo test"
    );
}
