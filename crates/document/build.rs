// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes plotly.min.js out of the `plotly` crate, compresses it and leaves it for `html/library.rs`.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use base64::Engine;
use flate2::{Compression, write::GzEncoder};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let sources = plotly::Plot::offline_js_sources();
    let library = first_script(&sources);
    assert!(
        library.starts_with("/**\n* plotly.js v"),
        "the plotly crate no longer begins its scripts with plotly.js: adapt build.rs"
    );

    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(library.as_bytes()).expect("compressing into memory");
    let packed = gzip.finish().expect("compressing into memory");
    let text = base64::engine::general_purpose::STANDARD.encode(packed);

    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("plotly.min.js.gz.b64"), text).expect("writing to OUT_DIR");
    println!("cargo::rustc-env=COWLAB_PLOTLY_JS_VERSION={}", version(library));
}

/// The text between the first pair of script tags.
fn first_script(html: &str) -> &str {
    let (_, rest) = html.split_once("<script type=\"text/javascript\">").expect("a script tag");
    rest.split_once("</script>").expect("the end of the script").0
}

/// `3.0.1` from the head comment `* plotly.js v3.0.1`.
fn version(library: &str) -> &str {
    let (_, rest) = library.split_once("plotly.js v").expect("the version in the head comment");
    rest.split_whitespace().next().expect("the version in the head comment")
}
