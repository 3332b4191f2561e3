// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel`: one file a verb below it, and what they share.

mod bench;
mod boot;
mod build;
mod fetch;
mod selftests;
mod series;
mod test;

use anyhow::Result;
use clap::ArgMatches;

use crate::args::Kernel;

/// Run the verb.
pub fn run(json: bool, verb: &Kernel, matches: &ArgMatches) -> Result<()> {
    match verb {
        Kernel::Fetch(args) => fetch::run(json, args),
        Kernel::Build(args) => build::run(json, args),
        Kernel::Boot(args) => boot::run(json, args),
        Kernel::Selftests(args) => selftests::run(json, args),
        Kernel::Bench(args) => bench::run(json, args, matches),
        Kernel::Test(args) => test::run(json, args),
        Kernel::Series(args) => series::run(json, args),
    }
}
