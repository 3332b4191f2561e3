// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the renderers write, against saved files; `UPDATE_GOLDEN=1` saves them anew.

#[path = "support/gallery.rs"]
mod gallery;

use std::path::Path;
use std::{env, fs};

use cowlab_report::{csv, html, terminal};

fn check(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
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

#[test]
fn html_fragment() {
    // A tag a line, so that a difference can be read.
    check("gallery.html", &html::render_body(&gallery::document()).replace("><", ">\n<"));
}

#[test]
fn terminal_text() {
    check("gallery.txt", &terminal::render(&gallery::document(), Some(100), false));
    check("gallery-narrow.txt", &terminal::render(&gallery::document(), Some(60), true));
}

#[test]
fn csv_files() {
    for (name, contents) in csv::tables(&gallery::document()) {
        check(&name, &contents);
    }
}
