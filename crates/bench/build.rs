// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the C probes, which the crate embeds: static programs.

use std::path::Path;
use std::process::Command;

/// probes/NAME.c, and what is told to the compiler.
const PROBES: [(&str, &[&str]); 9] = [
    ("do_fork", &[]),
    ("fork_table", &[]),
    (
        "fork_small",
        &[
            "-nostdlib",
            "-ffreestanding",
            "-fno-stack-protector",
            "-fno-pie",
            "-no-pie",
            "-Wl,-z,noseparate-code",
            "-Wl,--build-id=none",
        ],
    ),
    ("cow_faults", &[]),
    ("snapshot", &[]),
    ("cow_check", &[]),
    ("calibrate", &[]),
    ("keep_warm", &[]),
    ("tiny", &["-nostdlib", "-Wl,--build-id=none"]),
];

fn main() {
    // From the crate's folder, in which cargo runs this: the same in each checkout.
    let sources = Path::new("../../probes");
    println!("cargo::rerun-if-changed={}", sources.display());
    // A build that tests whether a slowdown would be found; see CONTRIBUTING.md.
    println!("cargo::rerun-if-env-changed=COWLAB_SLOWDOWN_PERCENT");
    let slowdown = std::env::var("COWLAB_SLOWDOWN_PERCENT").ok();
    // cc only chooses the compiler for the target: it makes libraries, not programs.
    let compiler = cc::Build::new().opt_level(2).get_compiler().path().to_owned();
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for (name, flags) in PROBES {
        let mut command = Command::new(&compiler);
        command.args(["-std=gnu11", "-O2", "-D_GNU_SOURCE"]);
        command.args(["-Wall", "-Wextra", "-Wshadow", "-Werror"]);
        command.args(slowdown.iter().map(|percent| format!("-DSLOWDOWN_PERCENT={percent}")));
        command.args(flags).arg("-o").arg(Path::new(&out).join(name));
        command.arg(sources.join(name).with_extension("c")).args(["-static", "-lm"]);
        let status = command.status().unwrap_or_else(|error| {
            panic!("cannot run the C compiler {}: {error}", compiler.display())
        });
        assert!(status.success(), "the probe {name} does not compile (is libc's libc.a there?)");
    }
}
