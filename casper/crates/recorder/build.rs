// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the program that shows what CASPER's events cost, with libcasper in it.

use std::path::Path;
use std::process::Command;

fn main() {
    // From the crate's folder, in which cargo runs this: the same in each checkout.
    let root = Path::new("../..");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let library = root.join("libcasper");
    for input in
        ["libcasper/src", "libcasper/include", "include/cowlab", "crates/recorder/trace_cost.c"]
    {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    // cc only chooses the compiler for the target: it makes libraries, not programs.
    let compiler = cc::Build::new().opt_level(2).get_compiler();
    let mut command = Command::new(compiler.path());
    command.args(["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror"]);
    command.args(["-static", "-fvisibility=hidden"]);
    // The same program from any folder.
    command.arg(format!("-ffile-prefix-map={}=.", root.display()));
    command.arg("-I").arg(library.join("include")).arg("-I").arg(root.join("include"));
    let mut sources: Vec<_> = std::fs::read_dir(library.join("src"))
        .expect("libcasper/src is there")
        .map(|entry| entry.expect("its entries can be read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "c" || end == "S"))
        .collect();
    sources.sort();
    command.args(&sources).arg(root.join("crates/recorder/trace_cost.c"));
    command.arg("-o").arg(Path::new(&out).join("trace_cost"));
    let status = command.status().unwrap_or_else(|error| {
        panic!("cannot run the C compiler {}: {error}", compiler.path().display())
    });
    assert!(status.success(), "trace_cost.c does not compile (is libc's libc.a there?)");
}
