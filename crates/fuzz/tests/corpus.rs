// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each target reads all of its corpus, what was found among it, and each of that cut short, within 1 GiB.

use std::fs;
use std::path::Path;

use cowlab_fuzz_files::TARGETS;
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn every_target_reads_its_corpus() {
    setrlimit(Resource::As, Rlimit { current: Some(1 << 30), maximum: None }).unwrap();
    for target in TARGETS {
        let corpus = Path::new("../../fuzz/corpus");
        let files = fs::read_dir(corpus.join(target.name)).expect(target.name);
        let inputs: Vec<_> = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for input in inputs {
            (target.read)(&input);
            (target.read)(&input[..input.len() / 2]);
        }
    }
}
