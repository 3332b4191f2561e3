// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders a document with every kind of block: `cargo run --example gallery -- DIR`.

#[path = "../tests/support/gallery.rs"]
mod gallery;

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: gallery DIR");
        std::process::exit(2);
    };
    let document = gallery::document();
    fs::create_dir_all(folder.join("tables"))?;
    fs::write(folder.join("report.html"), cowlab_document::html::render(&document))?;
    for (name, contents) in cowlab_document::csv::tables(&document) {
        fs::write(folder.join("tables").join(name), contents)?;
    }
    print!("{}", cowlab_document::terminal::render(&document, None, false));
    Ok(())
}
