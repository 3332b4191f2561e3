// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel fetch`: Debian's source, or a tarball, into the cache.

use anyhow::Result;
use cowlab_lab::source;
use serde::Serialize;

use crate::args::KernelFetchArgs;
use crate::lab::Lab;
use crate::output;

#[derive(Serialize)]
struct FetchSummary<'a> {
    source: &'a source::Source,
    cache: String,
    how: &'a str,
}

/// Run the verb.
pub fn run(json: bool, args: &KernelFetchArgs) -> Result<()> {
    let lab = Lab::open(json)?;
    let fetched = source::fetch(&lab.cache, args.source.as_ref(), &|what| lab.say(what))?;
    if json {
        let cache = lab.cache.root().display().to_string();
        return output::json_of(
            FetchSummary { source: &fetched.source, cache, how: &fetched.how },
            &[],
            &[],
        );
    }
    lab.say(&fetched.how);
    let source = &fetched.source;
    let package = source.package.as_deref().map_or(String::new(), |p| format!(" (Debian {p})"));
    output::print(&format!("Linux {}{package}, {}\n", source.version, source.id))
}
