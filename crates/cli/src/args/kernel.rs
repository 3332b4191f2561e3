// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `kernel`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use cowlab_lab::{AcceleratorChoice, SourceChoice, Variant};
use cowlab_machine::Policy;

use super::{BenchArgs, RunArgs, seconds, size};

/// What is done with the patched kernel.
#[derive(Debug, Subcommand)]
pub enum Kernel {
    /// Get Debian's newest source of a release of Linux into the cache
    Fetch(KernelFetchArgs),
    /// Build variants of the kernel, unless the cache has them
    Build(KernelBuildArgs),
    /// Run a command, or a shell, in a guest on this machine's files
    Boot(KernelBootArgs),
    /// Run one measurement, or a program, in a guest and bring its run home
    Bench(KernelBenchArgs),
    /// Run the tests of tests/kernel inside a guest
    Test(KernelTestArgs),
    /// Run upstream's selftests of mm and cowlab's own (kernel/selftests.toml) under each policy
    Selftests(KernelSelftestsArgs),
}

/// The source of kernels.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// A release of Linux (6.12, 7.3, …, from Debian) or a kernel's tarball; by default the last 6.12
    /// or tarball that was fetched
    #[arg(long, value_name = "RELEASE|FILE", global = true)]
    pub source: Option<SourceChoice>,
}

#[derive(Debug, Args)]
pub struct KernelFetchArgs {
    /// A release (6.12, 7.3, …: a package of Debian's), or a kernel's tarball, which is built from
    /// then on where no source is named; by default 6.12
    #[arg(long, value_name = "RELEASE|FILE")]
    pub source: Option<SourceChoice>,
}

#[derive(Debug, Args)]
pub struct KernelBuildArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// plain (no change at all), upstream (what Linux itself could take), patched (research on top,
    /// switched off), debug (with the kernel's own checks), kcsan (with its search for data races),
    /// traced (its functions tell CASPER)
    #[arg(long, value_delimiter = ',', default_value = "patched")]
    pub variant: Vec<Variant>,
}

/// A guest's machine, as far as it is said: `memory=2GiB,accelerator=tcg`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GuestSettings {
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// Its CPUs; at most 8, which is what its kernel is built for (CONFIG_NR_CPUS).
    pub cpus: Option<u32>,
    /// Who executes it.
    pub accelerator: AcceleratorChoice,
    /// It is killed after this time.
    pub time_limit_s: Option<f64>,
}

impl FromStr for GuestSettings {
    type Err = String;

    fn from_str(text: &str) -> Result<GuestSettings, String> {
        let mut settings = GuestSettings::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            match key {
                "memory" => settings.memory_bytes = Some(size(value)?),
                "cpus" => match value.parse() {
                    Ok(cpus @ 1..=8) => settings.cpus = Some(cpus),
                    _ => return Err(format!("cpus={value} is not in 1..8")),
                },
                "accelerator" => {
                    settings.accelerator = match value {
                        "auto" => AcceleratorChoice::Auto,
                        "kvm" => AcceleratorChoice::Kvm,
                        "tcg" => AcceleratorChoice::Tcg,
                        "icount" => AcceleratorChoice::Icount,
                        _ => return Err(format!("accelerator={value}: auto, kvm, tcg or icount")),
                    }
                }
                "time_limit_s" => settings.time_limit_s = Some(seconds(value)?),
                _ => return Err(format!("'{key}': memory, cpus, accelerator or time_limit_s")),
            }
        }
        Ok(settings)
    }
}

/// The machine that a guest sees.
#[derive(Debug, Clone, Args)]
pub struct GuestArgs {
    /// The guest: memory=SIZE, cpus=N (at most 8), accelerator=auto|kvm|tcg|icount (KVM where a
    /// kernel boots within 20 s, else TCG; icount emulates one CPU and counts instructions),
    /// time_limit_s=SECONDS after which it is killed
    #[arg(long = "guest", value_name = "KEY=VALUE[,…]", default_value = "", global = true)]
    pub settings: GuestSettings,
}

#[derive(Debug, Args)]
pub struct KernelBootArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Which kernel
    #[arg(long, default_value = "patched")]
    pub variant: Variant,
    /// This bzImage instead, of a kernel that was built elsewhere
    #[arg(long, value_name = "FILE", conflicts_with_all = ["variant", "source"])]
    pub image: Option<PathBuf>,
    /// A guest for measurements, as `kernel bench` has: its memory is there before it boots, and an
    /// old QEMU too gives each CPU a thread, where switching tracepoints can kill its kernel
    #[arg(long)]
    pub measured: bool,
    /// A folder that the guest can write to, under the same path
    #[arg(long, value_name = "DIR")]
    pub share: Option<PathBuf>,
    /// More for the kernel's command line; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub kernel_argument: Vec<String>,
    /// More for QEMU's command line; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub qemu_argument: Vec<OsString>,
    #[command(flatten)]
    pub guest: GuestArgs,
    /// The command and its arguments; a shell if not given
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct KernelTestArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// The kernels that are tested, each in a boot of its own
    #[arg(long, value_delimiter = ',', default_value = "patched")]
    pub variant: Vec<Variant>,
    /// Only what takes seconds: tests see COWLAB_QUICK=1
    #[arg(long)]
    pub quick: bool,
    /// Only tests whose name contains this
    #[arg(long, value_name = "NAME")]
    pub filter: Option<String>,
    /// Folder with the tests; by default tests/kernel beside kernel/
    #[arg(long, value_name = "DIR")]
    pub tests: Option<PathBuf>,
    /// A test is killed after this time
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds, allow_negative_numbers = true)]
    pub time_limit_s: f64,
    #[command(flatten)]
    pub guest: GuestArgs,
}

#[derive(Debug, Args)]
pub struct KernelSelftestsArgs {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub source: SourceArgs,
    /// The kernels that are tested, each in a boot of its own
    #[arg(long, value_delimiter = ',', default_value = "patched")]
    pub variant: Vec<Variant>,
    /// Only what takes seconds
    #[arg(long)]
    pub quick: bool,
    /// Only the test with exactly this name
    #[arg(long, value_name = "NAME")]
    pub filter: Option<String>,
    /// The policies that kernels with research's patches are tested under; plain and upstream have none
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "off,next,next:16,next:512,next:512:4,ccow:0,ccow:80,ccow:100,defer"
    )]
    pub policy: Vec<Policy>,
    /// Run stress-ng's stressors as well, each for this time
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub stress_s: u64,
    /// Who executes the guests: auto, kvm or tcg; their memory and CPUs are the list's
    #[arg(long = "guest", value_name = "accelerator=NAME", default_value = "")]
    pub guest: GuestSettings,
}

#[derive(Debug, Args)]
#[command(subcommand_value_name = "NAME", subcommand_help_heading = "Measurements")]
pub struct KernelBenchArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Which kernel; several are booted in turn, and their samples are in one run
    #[arg(long, value_delimiter = ',', default_value = "patched", global = true)]
    pub variant: Vec<Variant>,
    /// Boots of each kernel; by default 1, or 2 of several kernels
    #[arg(long, value_name = "N", global = true, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub boots: Option<u32>,
    #[command(flatten)]
    pub guest: GuestArgs,
    #[command(flatten)]
    pub what: BenchArgs,
}
