// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libFuzzer, on the target that COWLAB_FUZZ names: scripts/fuzz-files.
#![no_main]
// The macro exports the function that libFuzzer calls.
#![allow(unsafe_code, missing_docs)]

use std::sync::OnceLock;

use cowlab_fuzz_files::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<&Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("COWLAB_FUZZ").unwrap_or_default();
        let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
            // As scripts/fuzz-files asks for them.
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            std::process::exit(2);
        };
        let _ = TARGET.set(target);
    },
    |bytes: &[u8]| (TARGET.get().expect("it is chosen").read)(bytes)
);
