// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `kernel`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cowlab_lab::{Variant, Wanted};
use cowlab_machine::Policy;

use super::{BenchArgs, RunArgs, seconds, size};

/// What is done with the patched kernel.
#[derive(Debug, Subcommand)]
pub enum Kernel {
    /// Get Debian's source of Linux 6.12 into the cache
    Fetch(KernelFetchArgs),
    /// Build variants of the kernel, unless the cache has them
    Build(KernelBuildArgs),
    /// Run a command, or a shell, in a guest on this machine's files
    Boot(KernelBootArgs),
    /// Run one measurement, or a program, in a guest and bring its run home
    Bench(KernelBenchArgs),
    /// Run the tests of tests/kernel inside a guest
    Test(KernelTestArgs),
    /// Export the series as mails, checked and ready for git am
    Series(KernelSeriesArgs),
    /// Document 001 for Linux: Table I of a fork, and Table II of each change in kernel/study
    ForkStudy(ForkStudyArgs),
}

/// Where kernels are made.
#[derive(Debug, Clone, Args)]
pub struct KernelPlace {
    /// Folder for sources and kernels; by default COWLAB_CACHE, or cowlab/kernel in the user's
    /// cache folder
    #[arg(long, value_name = "DIR", global = true)]
    pub cache: Option<PathBuf>,
    /// Folder with config and series; by default kernel/ of the clone that this is run in
    #[arg(long, value_name = "DIR", global = true)]
    pub kernel_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct KernelFetchArgs {
    /// A kernel's tarball instead of Debian's package
    #[arg(long, value_name = "FILE")]
    pub source: Option<PathBuf>,
    #[command(flatten)]
    pub place: KernelPlace,
}

#[derive(Debug, Args)]
pub struct KernelBuildArgs {
    /// plain (no change at all), patched (all of it switched off), debug (with the kernel's own
    /// checks), traced (its functions tell CASPER)
    #[arg(long, value_delimiter = ',', default_value = "patched")]
    pub variant: Vec<Variant>,
    /// Apply the steps of the series up to this one, by number or name
    #[arg(long, value_name = "STEP")]
    pub through: Option<String>,
    /// Compilers at once; by default one a CPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    #[command(flatten)]
    pub place: KernelPlace,
}

/// Who executes a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AcceleratorChoice {
    /// KVM where a tiny guest runs within 5 s, else TCG
    Auto,
    /// KVM or an error
    Kvm,
    /// Emulation
    Tcg,
    /// Emulation of one CPU that counts instructions: there are no times, only counts
    Icount,
}

impl AcceleratorChoice {
    /// What the lab calls it.
    pub fn wanted(self) -> Wanted {
        match self {
            AcceleratorChoice::Auto => Wanted::Auto,
            AcceleratorChoice::Kvm => Wanted::Kvm,
            AcceleratorChoice::Tcg => Wanted::Tcg,
            AcceleratorChoice::Icount => Wanted::Icount,
        }
    }
}

/// The machine that a guest sees.
#[derive(Debug, Clone, Args)]
pub struct MachineArgs {
    /// Memory of the guest
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size)]
    pub memory: u64,
    /// CPUs of the guest; at most 8, which is what its kernel is built for (CONFIG_NR_CPUS)
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub cpus: u32,
    /// Who executes it
    #[arg(long, value_enum, default_value = "auto")]
    pub accelerator: AcceleratorChoice,
}

impl MachineArgs {
    /// What the lab calls it.
    pub fn wanted(&self) -> Wanted {
        self.accelerator.wanted()
    }
}

#[derive(Debug, Args)]
pub struct ForkStudyArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Boots of each kernel, in turn
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Forks of each size in a boot
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub forks: u32,
    /// Heaps beyond the smallest possible process
    #[arg(long, value_delimiter = ',', default_value = "0,10MiB,100MiB,1GiB", value_parser = size)]
    pub size_bytes: Vec<u64>,
    /// Only these changes of kernel/study, by number or name; none: Table I alone
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub change: Vec<String>,
    /// A kernel that was built elsewhere, instead of building: NAME=FILE, the unchanged one first; may
    /// be repeated
    #[arg(long, value_name = "NAME=FILE", conflicts_with = "change")]
    pub image: Vec<String>,
    /// Do not count instructions
    #[arg(long)]
    pub no_instructions: bool,
    /// Memory of the guest, which has one CPU
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size)]
    pub memory: u64,
    /// Who executes it
    #[arg(long, value_enum, default_value = "auto")]
    pub accelerator: AcceleratorChoice,
    #[command(flatten)]
    pub place: KernelPlace,
}

#[derive(Debug, Args)]
pub struct KernelBootArgs {
    /// Which kernel
    #[arg(long, default_value = "patched")]
    pub variant: Variant,
    /// This bzImage instead, of a kernel that was built elsewhere
    #[arg(long, value_name = "FILE", conflicts_with = "variant")]
    pub image: Option<PathBuf>,
    /// A guest for measurements, as `kernel bench` has: its memory is there before it boots, and an
    /// old QEMU too gives each CPU a thread, where switching tracepoints can kill its kernel
    #[arg(long)]
    pub measured: bool,
    /// Kill the guest after this time; by default 600 for a command, and no limit for a shell
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub time_limit_s: Option<f64>,
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
    pub machine: MachineArgs,
    #[command(flatten)]
    pub place: KernelPlace,
    /// The command and its arguments; a shell if not given
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct KernelTestArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// The kernels that are tested, each in a boot of its own
    #[arg(long, value_delimiter = ',', default_value = "patched")]
    pub variant: Vec<Variant>,
    /// Only what takes seconds: tests see COWLAB_QUICK=1
    #[arg(long)]
    pub quick: bool,
    /// Only tests whose name contains this
    #[arg(long, value_name = "NAME")]
    pub filter: Option<String>,
    /// Upstream's selftests of mm and the project's own, as kernel/selftests.toml lists them, under
    /// each policy; --filter is one test's whole name then, and limits, memory and CPUs are the list's
    #[arg(long, conflicts_with_all = ["tests", "time_limit_s", "memory", "cpus"])]
    pub selftests: bool,
    /// The policies that kernels with the series are tested under
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "off,next,next:16,next:512,next:512:4,ccow:0,ccow:80,ccow:100",
        requires = "selftests"
    )]
    pub policy: Vec<Policy>,
    /// Run stress-ng's stressors as well, each for this time
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "selftests")]
    pub stress_s: u64,
    /// Folder with the tests; by default tests/kernel beside kernel/
    #[arg(long, value_name = "DIR")]
    pub tests: Option<PathBuf>,
    /// A test is killed after this time
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds, allow_negative_numbers = true)]
    pub time_limit_s: f64,
    /// More for the kernel's command line; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub kernel_argument: Vec<String>,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub place: KernelPlace,
}

#[derive(Debug, Args)]
pub struct KernelSeriesArgs {
    /// Folder for the mails; it must not hold any
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// The run whose figures are quoted in the cover letter
    #[arg(long, value_name = "RUN")]
    pub run: Option<PathBuf>,
    /// Version of the series, as in [PATCH v2 1/9]
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub reroll: u32,
    /// Author of the patches, as 'Name <mail@address>'; git's own setting if not given
    #[arg(long, value_name = "AUTHOR")]
    pub author: Option<String>,
    /// Apply the mails to a fresh source with git am
    #[arg(long)]
    pub check: bool,
    /// Build the kernel after each patch as well
    #[arg(long)]
    pub build: bool,
    #[command(flatten)]
    pub place: KernelPlace,
}

/// A guest that measures.
#[derive(Debug, Clone, Args)]
pub struct GuestArgs {
    /// Memory of the guest
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = size, global = true)]
    pub memory: u64,
    /// CPUs of the guest; by default 2, or 1 where instructions are counted; at most 8, which is
    /// what its kernel is built for (CONFIG_NR_CPUS)
    #[arg(long, value_name = "N", global = true, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub cpus: Option<u32>,
    /// Who executes it
    #[arg(long, value_enum, default_value = "auto", global = true)]
    pub accelerator: AcceleratorChoice,
    /// Kill a guest after this time
    #[arg(long, value_name = "SECONDS", default_value_t = 7200.0, value_parser = seconds, allow_negative_numbers = true, global = true)]
    pub time_limit_s: f64,
    #[command(flatten)]
    pub place: KernelPlace,
}

#[derive(Debug, Args)]
#[command(subcommand_value_name = "NAME", subcommand_help_heading = "Measurements")]
pub struct KernelBenchArgs {
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
