// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run on disk: `run.json`, samples with HDR histograms as lines of JSON, and folders that are
//! only ever whole.

mod environment;
mod file;
mod histogram;
mod pprof;
mod redact;
mod replace;
mod run;
mod sample;
mod samples;
pub mod stacks;

pub use environment::{Accelerator, Environment, KernelBuild};
pub use file::{TEXT_BYTES, open_regular, read_lines, read_text};
pub use hdrhistogram::Histogram;
pub use histogram::{deserialise, histogram_of, serialise, value_at};
pub use redact::{redacted, without_user};
pub use replace::replace;
pub use run::{FORMAT, Run, RunFolder, RunInfo, WITHHELD, parse};
pub use sample::{Missing, Params, Sample};
pub use samples::parse as parse_samples;
