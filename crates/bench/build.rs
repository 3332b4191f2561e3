// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the C probes, which the crate embeds: static programs, but for those that show what
//! libcasper costs as a shared library.

use std::path::PathBuf;
use std::process::Command;

/// Where a program has libcasper from.
#[derive(Clone, Copy, PartialEq)]
enum Casper {
    None,
    Static,
    Shared,
}

/// What is compiled: its name, its source in probes/, and what is told to the compiler.
struct Probe {
    name: &'static str,
    source: &'static str,
    flags: &'static [&'static str],
    casper: Casper,
}

const fn plain(name: &'static str, source: &'static str) -> Probe {
    Probe { name, source, flags: &[], casper: Casper::None }
}

const fn traced(
    name: &'static str,
    source: &'static str,
    flags: &'static [&'static str],
    casper: Casper,
) -> Probe {
    Probe { name, source, flags, casper }
}

const EVENTS: &str = "trace/trace_casper.c";
const CALLS: &str = "trace/trace_calls.c";
const INSERT: &[&str] = &["-DCASPER_INSERT"];
/// What the harness inlines is not to be traced, and nothing names the library.
const HOOKS: &[&str] = &[
    "-finstrument-functions",
    "-finstrument-functions-exclude-file-list=probe.h,trace.h,libcasper",
    "-Wl,--no-as-needed",
];

const PROBES: [Probe; 17] = [
    plain("do_fork", "do_fork.c"),
    plain("fork_table", "fork_table.c"),
    Probe {
        name: "fork_small",
        source: "fork_small.c",
        flags: &[
            "-nostdlib",
            "-ffreestanding",
            "-fno-stack-protector",
            "-fno-pie",
            "-no-pie",
            "-Wl,-z,noseparate-code",
            "-Wl,--build-id=none",
        ],
        casper: Casper::None,
    },
    plain("cow_faults", "cow_faults.c"),
    plain("snapshot", "snapshot.c"),
    plain("cow_check", "cow_check.c"),
    plain("calibrate", "calibrate.c"),
    plain("keep_warm", "keep_warm.c"),
    Probe {
        name: "tiny",
        source: "tiny.c",
        flags: &["-nostdlib", "-Wl,--build-id=none"],
        casper: Casper::None,
    },
    plain("trace_floor", "trace/trace_floor.c"),
    plain("trace_calls", CALLS),
    traced("casper_events_static", EVENTS, &[], Casper::Static),
    traced("casper_insert_static", CALLS, INSERT, Casper::Static),
    traced("casper_hooks_static", CALLS, HOOKS, Casper::Static),
    traced("casper_events_shared", EVENTS, &[], Casper::Shared),
    traced("casper_insert_shared", CALLS, INSERT, Casper::Shared),
    traced("casper_hooks_shared", CALLS, HOOKS, Casper::Shared),
];

struct Build {
    root: PathBuf,
    out: PathBuf,
    compiler: PathBuf,
}

fn main() {
    // From the crate's folder, in which cargo runs this: the same in each checkout.
    let root = PathBuf::from("../..");
    for input in ["probes", "casper/libcasper", "casper/include/cowlab"] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    // A build that tests whether a slowdown would be found; see CONTRIBUTING.md.
    println!("cargo::rerun-if-env-changed=COWLAB_SLOWDOWN_PERCENT");
    let slowdown = std::env::var("COWLAB_SLOWDOWN_PERCENT").ok();
    // cc only chooses the compiler for the target: it makes libraries, not programs.
    let compiler = cc::Build::new().opt_level(2).get_compiler().path().to_owned();
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let build = Build { root, out, compiler };

    build.library();
    for probe in PROBES {
        let mut command = build.command();
        if let Some(percent) = &slowdown {
            command.arg(format!("-DSLOWDOWN_PERCENT={percent}"));
        }
        command.args(probe.flags).arg("-o").arg(build.out.join(probe.name));
        command.arg(build.root.join("probes").join(probe.source));
        match probe.casper {
            Casper::None => command.arg("-static"),
            Casper::Static => command.args(["-static", "-fvisibility=hidden"]).args(build.casper()),
            Casper::Shared => command.arg(build.out.join("libcasper.so.1")),
        };
        build.run(command.arg("-lm"), probe.name);
    }
}

impl Build {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.compiler);
        command.args(["-std=gnu11", "-O2", "-D_GNU_SOURCE"]);
        command.args(["-Wall", "-Wextra", "-Wshadow", "-Werror"]);
        command.arg("-I").arg(self.root.join("casper/libcasper/include"));
        command.arg("-I").arg(self.root.join("casper/include"));
        command
    }

    /// The sources of libcasper.
    fn casper(&self) -> Vec<PathBuf> {
        let folder = self.root.join("casper/libcasper/src");
        let mut sources: Vec<_> = std::fs::read_dir(folder)
            .expect("libcasper/src is there")
            .map(|entry| entry.expect("its entries can be read").path())
            .filter(|path| path.extension().is_some_and(|end| end == "c" || end == "S"))
            .collect();
        sources.sort();
        sources
    }

    /// libcasper as programs are linked with it, as libcasper/Makefile makes it.
    fn library(&self) {
        let mut command = self.command();
        command.args(["-fPIC", "-fvisibility=hidden", "-shared", "-Wl,-soname,libcasper.so.1"]);
        let map = self.root.join("casper/libcasper/libcasper.map");
        command.arg(format!("-Wl,--version-script={}", map.display()));
        command.args(self.casper()).arg("-o").arg(self.out.join("libcasper.so.1"));
        self.run(&mut command, "libcasper.so.1");
    }

    fn run(&self, command: &mut Command, name: &str) {
        let status = command.status().unwrap_or_else(|error| {
            panic!("cannot run the C compiler {}: {error}", self.compiler.display())
        });
        assert!(status.success(), "the probe {name} does not compile (is libc's libc.a there?)");
    }
}
