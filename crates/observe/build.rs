// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the BPF programs, which the crate embeds.

use std::path::Path;
use std::process::Command;

const PROGRAMS: [&str; 2] = ["observe", "learn"];

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    // gcc for BPF is not in every distribution, and aya reads what clang's back end writes.
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target");
    for name in PROGRAMS {
        let mut command = Command::new(&clang);
        // -g makes the BTF that describes the maps.
        command.args(["-target", "bpf", "-g", "-O2", "-Wall", "-Wextra", "-Werror"]);
        // Which folder it is built in is nobody's business, and makes other bytes of the program.
        let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
        command.arg(format!("-ffile-prefix-map={here}=."));
        // The programs' context is not always looked at.
        command.arg("-Wno-unused-parameter");
        // Where Debian has asm/types.h, which linux/types.h includes, and where its cross compilers do.
        command.arg("-idirafter").arg(format!("/usr/include/{architecture}-linux-gnu"));
        command.arg("-idirafter").arg(format!("/usr/{architecture}-linux-gnu/include"));
        command.arg("-c").arg(format!("bpf/{name}.bpf.c"));
        command.arg("-o").arg(Path::new(&out).join(format!("{name}.bpf.o")));
        let status = command.status().unwrap_or_else(|error| {
            panic!("cannot run {clang}, which compiles the BPF programs: {error}; scripts/install build")
        });
        assert!(
            status.success(),
            "bpf/{name}.bpf.c does not compile: are libbpf-dev and linux-libc-dev there? \
             (scripts/install build)"
        );
    }
}
