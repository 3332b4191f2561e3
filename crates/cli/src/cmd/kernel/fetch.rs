// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel fetch`: Debian's source, or a tarball, into the cache.

use anyhow::Result;
use cowlab_lab::{SourceChoice, source};
use serde::Serialize;

use crate::args::KernelFetchArgs;
use crate::lab::Lab;
use crate::output;

#[derive(Serialize)]
struct FetchSummary<'a> {
    source: &'a source::Source,
    cache: String,
}

/// Run the verb.
pub fn run(json: bool, args: &KernelFetchArgs) -> Result<()> {
    let lab = Lab::open(json)?;
    let say = |what: &str| lab.say(what);
    let source = match &args.source {
        Some(SourceChoice::Release(release)) => source::fetch(&lab.cache, release, &say)?,
        None => source::fetch(&lab.cache, source::BASE, &say)?,
        tarball => source::Source::find(&lab.cache, tarball.as_ref(), &say)?,
    };
    if json {
        let cache = lab.cache.root().display().to_string();
        return output::json_of(FetchSummary { source: &source, cache }, &[], &[]);
    }
    let package = source.package.as_deref().map_or(String::new(), |p| format!(" (Debian {p})"));
    output::print(&format!("Linux {}{package}, {}\n", source.version, source.id))
}
