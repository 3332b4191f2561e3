// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run on disk: `run.json`, Parquet samples with HDR histograms, and folders that are only
//! ever whole.

mod environment;
mod file;
mod histogram;
mod pages;
mod parquet;
mod pprof;
mod redact;
mod replace;
mod run;
mod sample;
pub mod stacks;

pub use environment::{Accelerator, Environment, KernelBuild};
pub use file::{TEXT_BYTES, open_regular, read_lines, read_text};
pub use hdrhistogram::Histogram;
pub use histogram::{deserialise, histogram_of, serialise, value_at};
pub use redact::{redacted, without_user};
pub use replace::replace;
pub use run::{FORMAT, Run, RunFolder, RunInfo, WITHHELD, parse};
pub use sample::{Missing, Params, Sample};
