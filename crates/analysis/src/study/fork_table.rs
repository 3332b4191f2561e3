// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes made, by method and size: TLPI's table 28-3 and its replay.

use cowlab_model::Estimate;
use cowlab_schema::Method;
use cowlab_schema::fork_table::{
    BENCH, CPU_NS, CPU_WITH_CHILDREN_NS, ELAPSED_NS, ITERATIONS, METHOD, PINNED, RATE_PER_S,
    SIZE_BYTES, TOUCHED,
};

use super::Study;

/// Iterations of TLPI's table 28-3 and of its replay.
pub const PAPER_ITERATIONS: u64 = 100_000;

#[derive(Debug, Clone, Copy)]
pub struct Made {
    pub method: Method,
    /// What the program allocated before.
    pub size_bytes: u64,
    /// Whether it wrote all of that.
    pub touched: bool,
    /// Processes made in a run of the program.
    pub iterations: u64,
    pub elapsed_ns: Estimate,
    /// CPU time of the program itself.
    pub cpu_ns: Option<Estimate>,
    /// The same with its children's.
    pub with_children_ns: Option<Estimate>,
    pub rate_per_s: Option<Estimate>,
}

pub fn made(study: &Study, method: Method, size_bytes: u64, touched: bool) -> Option<Made> {
    let samples = study
        .samples(BENCH)
        .with(METHOD, method)
        .with(SIZE_BYTES, size_bytes)
        .with(TOUCHED, touched)
        .with(PINNED, true);
    let iterations = samples.numbers(ITERATIONS).pop().filter(|iterations| *iterations > 0)?;
    let samples = samples.with(ITERATIONS, iterations);
    let each = |metric| Some(samples.estimate(metric)?.scaled(1.0 / iterations as f64));
    Some(Made {
        method,
        size_bytes,
        touched,
        iterations,
        elapsed_ns: each(ELAPSED_NS)?,
        cpu_ns: each(CPU_NS),
        with_children_ns: each(CPU_WITH_CHILDREN_NS),
        rate_per_s: samples.estimate(RATE_PER_S),
    })
}
