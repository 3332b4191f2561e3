// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the guest's first process, which the crate embeds.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let source = "guest/init.c";
    println!("cargo::rerun-if-changed={source}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let status = Command::new("gcc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s", "-o"])
        .arg(out.join("init"))
        .arg(source)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{source} does not compile");
}
