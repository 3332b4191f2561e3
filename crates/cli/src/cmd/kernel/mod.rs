// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel`: one file a verb below it.

mod boot;
mod build;
mod test;

use anyhow::Result;

use crate::args::Kernel;

pub fn run(json: bool, verb: &Kernel) -> Result<()> {
    match verb {
        Kernel::Build(args) => build::run(json, args),
        Kernel::Boot(args) => boot::run(json, args),
        Kernel::Test(args) => test::run(json, args),
    }
}
