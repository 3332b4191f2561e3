// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plotting library as the page carries it: some 1.9 MB of base64 instead of 4.6 MB of source.

/// plotly.min.js, gzip and base64; from build.rs.
pub(super) const PACKED: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.min.js.gz.b64"));
/// Its version.
pub(super) const VERSION: &str = env!("COWLAB_PLOTLY_JS_VERSION");
