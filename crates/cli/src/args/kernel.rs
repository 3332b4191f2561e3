// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `kernel`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use cowlab_lab::{AcceleratorChoice, SourceChoice, Variant};
use cowlab_machine::Policy;

use super::{seconds, size};

/// What is done with the patched kernel.
#[derive(Debug, Subcommand)]
pub enum Kernel {
    /// Build variants of the kernel, unless the cache has them
    Build(KernelBuildArgs),
    /// Run a command, or a shell, in a guest on this machine's files
    Boot(KernelBootArgs),
    /// Run tests inside guests: the project's own, and with --filter mm/ upstream's selftests of mm
    Test(KernelTestArgs),
}

/// The source of kernels.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// A release of Linux (6.12, 7.3, …, from Debian) or a kernel's tarball; by default 6.12. `kernel build` gets the
    /// newest package of a release that is named
    #[arg(long, value_name = "RELEASE|FILE", global = true)]
    pub source: Option<SourceChoice>,
}

/// Kernels that are booted in turn for a measurement.
#[derive(Debug, Args)]
pub struct KernelsArgs {
    /// Measure in guests that boot these kernels in turn (plain, upstream, patched, …), instead of on this one
    #[arg(long, value_name = "VARIANT", value_delimiter = ',', global = true)]
    pub kernel: Vec<Variant>,
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub guest: GuestArgs,
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
    /// It, or each test in it, is killed after this time.
    pub time_limit_s: Option<f64>,
    /// How often each kernel is booted.
    pub boots: Option<u32>,
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
                "boots" => match value.parse() {
                    Ok(boots @ 1..=100) => settings.boots = Some(boots),
                    _ => return Err(format!("boots={value} is not in 1..100")),
                },
                _ => {
                    let known = "memory, cpus, accelerator, time_limit_s or boots";
                    return Err(format!("'{key}': {known}"));
                }
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
    /// time_limit_s=SECONDS after which it, or of `kernel test` each test, is killed, and of `bench` boots=N of each
    /// kernel (2 of several, else 1)
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
    /// A guest for measurements, as `bench --kernel` has: its memory is there before it boots, and an
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
    /// Only what takes seconds: the project's own tests see COWLAB_QUICK=1
    #[arg(long)]
    pub quick: bool,
    /// The test of this name, or all with this in their names; upstream's selftests (kernel/selftests) are called
    /// mm/NAME, and run only if the filter names them
    #[arg(long, value_name = "NAME")]
    pub filter: Option<String>,
    /// Only the tests in this folder, instead of tests/kernel beside kernel/ and upstream's
    #[arg(long, value_name = "DIR")]
    pub tests: Option<PathBuf>,
    /// The policy that selftests run under on kernels that have them, without those that set policies themselves
    #[arg(long)]
    pub policy: Option<Policy>,
    /// Run stress-ng's stressors (mm/stress-vm, …) as well, each for this time
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub stress_s: u64,
    #[command(flatten)]
    pub guest: GuestArgs,
}
