// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the C probes to static programs, which the crate embeds.

use std::path::Path;
use std::process::Command;

/// By their places in probes/.
const PROBES: [&str; 9] = [
    "do_fork",
    "fork_table",
    "cow_faults",
    "cow_check",
    "calibrate",
    "keep_warm",
    "tiny",
    "trace/trace_floor",
    "trace/trace_calls",
];

fn main() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../probes");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    println!("cargo::rerun-if-changed={}", sources.display());
    // A build that tests whether a slowdown would be found; see CONTRIBUTING.md.
    println!("cargo::rerun-if-env-changed=COWLAB_SLOWDOWN_PERCENT");
    let slowdown = std::env::var("COWLAB_SLOWDOWN_PERCENT").ok();

    for probe in PROBES {
        // cc only chooses the compiler for the target: it makes libraries, not programs.
        let compiler = cc::Build::new().opt_level(2).get_compiler();
        let mut command = Command::new(compiler.path());
        command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-static"]);
        command.arg("-D_GNU_SOURCE");
        if probe == "tiny" {
            command.args(["-nostdlib", "-Wl,--build-id=none"]);
        }
        if let Some(percent) = &slowdown {
            command.arg(format!("-DSLOWDOWN_PERCENT={percent}"));
        }
        let name = Path::new(probe).file_name().expect("a probe has a name");
        command.arg("-o").arg(Path::new(&out).join(name));
        command.arg(sources.join(format!("{probe}.c"))).arg("-lm");
        let status = command.status().unwrap_or_else(|error| {
            panic!("cannot run the C compiler {}: {error}", compiler.path().display())
        });
        assert!(status.success(), "the probe {probe} does not compile (is libc's libc.a there?)");
    }
}
