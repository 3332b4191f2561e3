// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the renderers write, against saved files; `UPDATE_GOLDEN=1` saves them anew.

#[path = "support/gallery.rs"]
mod gallery;
#[path = "support/golden.rs"]
mod golden;

use cowlab_document::{csv, html, terminal};
use golden::check;

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
