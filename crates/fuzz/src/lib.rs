// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readers of foreign bytes, as a table: `make fuzz` mutates the bytes, a test reads `fuzz/corpus`.
//! A reader may refuse its input; it must not panic, hang or exhaust memory.

mod insert;
mod reader;
mod tree;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use cowlab_analysis::blame::{blame, folded};
use cowlab_analysis::figures::figures;
use cowlab_bench::probes::Rows;
use cowlab_casper::elf::Budget;
use cowlab_lab::ktap;
use cowlab_machine::cow_stats::{CowStats, ProcessCowStats};
use cowlab_machine::{Smaps, Stat, mappings, status};
use cowlab_model::cost::{Question, predict};
use cowlab_model::profile::{MachineProfile, Writer};
use cowlab_observe::blame::{Image, PerfMap, functions, jitdump};
use cowlab_observe::bpf::{Copied, Event, Fault};
use cowlab_store::stacks::CopyStacks;
use cowlab_store::{Environment, RunInfo};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Deserialize;

pub struct Target {
    /// As in `fuzz/corpus/NAME`.
    pub name: &'static str,
    pub read: fn(&[u8]),
}

pub const TARGETS: [Target; 15] = [
    Target { name: "samples", read: samples },
    Target { name: "run", read: |bytes| drop(parsed::<RunInfo>(bytes)) },
    Target { name: "profile", read: profile },
    Target { name: "histogram", read: histogram },
    Target { name: "ktap", read: |bytes| drop(ktap::parse(&text(bytes))) },
    Target { name: "rows", read: |bytes| drop(Rows::decode(&text(bytes))) },
    Target { name: "process", read: process },
    Target { name: "machine", read: tree::machine },
    Target { name: "events", read: events },
    Target { name: "stacks", read: stacks },
    Target { name: "elf", read: elf },
    Target { name: "perf_map", read: perf_map },
    Target { name: "jitdump", read: jitdump },
    Target { name: "insert", read: insert::read },
    Target { name: "reader", read: reader::read },
];

fn here() -> &'static Path {
    Path::new("input")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn parsed<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Option<T> {
    cowlab_store::parse(&text(bytes), here()).ok()
}

fn samples(bytes: &[u8]) {
    let Ok(samples) = cowlab_store::parse_samples(bytes, here()) else { return };
    samples.iter().filter_map(|sample| sample.histogram.as_deref()).for_each(histogram);
    figures(&samples);
}

fn stacks(bytes: &[u8]) {
    let Ok(stacks) = CopyStacks::of_profile(bytes) else { return };
    drop((blame(&stacks, 1000.0, &Default::default()), folded(&stacks)));
    stacks.encode(4096).expect("what was read can be written");
}

fn perf_map(bytes: &[u8]) {
    PerfMap::decode(bytes).name(0x7f00);
}

fn jitdump(bytes: &[u8]) {
    jitdump::decode(bytes).name(0x7f00);
}

fn elf(bytes: &[u8]) {
    let mut file = File::from(
        memfd_create(c"input", MemfdFlags::CLOEXEC).expect("a file in memory can be made"),
    );
    file.write_all(bytes).expect("a file in memory can be written");
    let budget = Budget::new(1 << 20, 1 << 20);
    let Some(image) = Image::read("input".to_owned(), file, &budget) else { return };
    functions(&image, &[0, 0x1139, u64::MAX]);
}

/// As in `profile.json`.
#[derive(Deserialize)]
struct Profile {
    #[serde(rename = "environment")]
    _environment: Environment,
    profile: MachineProfile,
}

fn profile(bytes: &[u8]) {
    let Some(Profile { profile, .. }) = parsed(bytes) else { return };
    for page_size_bytes in profile.has_page_sizes().then_some([4096, 2 << 20]).iter().flatten() {
        let question = Question {
            pages: 262_144,
            written: 1000,
            written_before: 262_144,
            writer: Writer::Child,
            threads: 0.0,
            page_size_bytes: *page_size_bytes,
            split_pages: None,
            among_work: true,
            cpu_ns_per_copy: None,
            nearby_share: None,
            vmas: None,
        };
        drop(predict(&profile, &question));
    }
}

fn histogram(bytes: &[u8]) {
    let Ok(histogram) = cowlab_store::deserialise(bytes) else { return };
    for quantile in cowlab_schema::QUANTILES {
        cowlab_store::value_at(&histogram, quantile);
    }
    cowlab_store::serialise(&histogram);
}

/// The files of one process, which chooses its name and mappings.
fn process(bytes: &[u8]) {
    let text = text(bytes);
    Stat::decode(bytes);
    Stat::faults_and_pages(bytes);
    drop(mappings::decode(&text));
    drop(Smaps::decode(&text, here()));
    drop(CowStats::decode(&text, here()));
    drop(ProcessCowStats::decode(&text, here()));
    status::bytes(&text, "VmRSS");
}

fn events(bytes: &[u8]) {
    drop((Event::decode(bytes), Fault::decode(bytes), Copied::decode(bytes)));
}
