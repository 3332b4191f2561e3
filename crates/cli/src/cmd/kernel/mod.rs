// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel`: one file a verb below it, and what they share.

mod bench;
mod boot;
mod build;
mod fetch;
mod selftests;
mod test;

use anyhow::Result;
use clap::ArgMatches;
use cowlab_lab::Variant;
use cowlab_machine::Policy;

use crate::args::Kernel;
use crate::usage::WrongUsage;

/// Run the verb.
pub fn run(json: bool, verb: &Kernel, matches: &ArgMatches) -> Result<()> {
    match verb {
        Kernel::Fetch(args) => fetch::run(json, args),
        Kernel::Build(args) => build::run(json, args),
        Kernel::Boot(args) => boot::run(json, args),
        Kernel::Selftests(args) => selftests::run(json, args, matches),
        Kernel::Bench(args) => bench::run(json, args, matches),
        Kernel::Test(args) => test::run(json, args),
    }
}

/// Refuse policies that were asked for where no kernel has any.
fn check_policies(asked: &[Policy], variants: &[Variant]) -> Result<()> {
    let of_every_kernel = |policy: &Policy| matches!(policy, Policy::Off | Policy::Stock);
    match asked.iter().find(|policy| !of_every_kernel(policy)) {
        Some(policy) if !variants.iter().any(|variant| variant.has_policies()) => {
            Err(WrongUsage(format!(
                "--policy {policy}: kernels without research's patches have no policies: add patched \
                 to --variant"
            ))
            .into())
        }
        _ => Ok(()),
    }
}
