// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Upstream's selftests of mm and the project's own, on several kernels and under several policies:
//! what is run, how it is built, and whether the results are what they have to be.

pub mod batches;
pub mod list;
mod plain_output;
pub mod programs;
pub mod review;

pub use batches::batches;
pub use list::{List, Test};
pub use programs::programs;
pub use review::{Problem, review};

use std::fs;
use std::path::Path;

use crate::outcome::TestResult;

/// Give tests that print no KTAP the cases that their output in `folder` tells of otherwise.
pub fn add_plain_output(results: &mut [TestResult], folder: &Path) {
    let is_upstreams = |result: &&mut TestResult| result.name.starts_with(list::PREFIX);
    for result in results.iter_mut().filter(is_upstreams).filter(|result| result.cases.is_empty()) {
        let Some(output) = &result.output else { continue };
        let printed = fs::read(folder.join(output)).unwrap_or_default();
        result.cases = plain_output::cases(&String::from_utf8_lossy(&printed));
    }
}
