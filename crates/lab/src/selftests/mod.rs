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
    for result in results.iter_mut().filter(|result| result.cases.is_empty()) {
        let Some(output) = &result.output else { continue };
        let printed = fs::read(folder.join(output)).unwrap_or_default();
        result.cases = plain_output::cases(&String::from_utf8_lossy(&printed));
    }
}

/// A line for each test and case: how it ended, the test, the case, and why.
pub fn lines(results: &[TestResult]) -> String {
    let mut lines = String::new();
    for result in results {
        let reason = result.reason.as_deref().unwrap_or("").lines().next().unwrap_or("");
        lines += &format!("{}\t{}\t\t{reason}\n", result.outcome.name(), result.name);
        for case in &result.cases {
            let note = case.note.as_deref().unwrap_or("");
            lines += &format!("{}\t{}\t{}\t{note}\n", case.outcome.name(), result.name, case.name);
        }
    }
    lines
}
