// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernels and guests, as several verbs use them.

pub mod guests;
mod messages;
pub mod plan;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use cowlab_lab::source::Source;
use cowlab_lab::{
    AcceleratorChoice, Built, Cache, KernelFolder, Order, SourceChoice, Variant, Watch, accelerator,
};
use cowlab_machine::Policy;
use cowlab_store::Accelerator;

use crate::args::SourceArgs;
use crate::output;
use crate::signals;
use crate::usage::WrongUsage;

/// Memory of a guest that nobody measures in.
pub const GUEST_BYTES: u64 = 4 << 30;
pub const GUEST_CPUS: u32 = 2;

/// Refuse policies that were asked for where no kernel has any.
pub fn check_policies(asked: &[Policy], kernels: &[Variant]) -> Result<()> {
    let of_every_kernel = |policy: &&Policy| matches!(policy, Policy::Off | Policy::Stock);
    match asked.iter().find(|policy| !of_every_kernel(policy)) {
        Some(policy) if !kernels.iter().any(|variant| variant.has_policies()) => {
            Err(WrongUsage(format!(
                "policy {policy}: kernels without research's patches have no policies: add patched \
                 to the kernels"
            ))
            .into())
        }
        _ => Ok(()),
    }
}

/// This program's file, for a guest: a copy in `folder`, if its file was replaced since it began.
pub fn own_program(folder: &Path) -> Result<PathBuf> {
    let cannot = "cannot find this program itself";
    let program = std::env::current_exe().context(cannot)?;
    if program.exists() {
        return Ok(program);
    }
    let copy = folder.join("cowlab");
    std::fs::copy("/proc/self/exe", &copy).context(cannot)?;
    Ok(copy)
}

/// Where kernels are made, who is told about it, and what Ctrl-C sets.
pub struct Lab {
    pub cache: Cache,
    pub interrupted: Arc<AtomicBool>,
    /// Whether nothing but errors is said.
    pub quiet: bool,
    /// What kernels are built from; what was fetched last if not given.
    pub source: Option<SourceChoice>,
}

impl Lab {
    pub fn open(json: bool) -> Result<Lab> {
        let interrupted = signals::interrupted()?;
        Ok(Lab {
            cache: Cache::new(None)?,
            interrupted,
            quiet: json && !std::io::stderr().is_terminal(),
            source: None,
        })
    }

    /// The same with kernels of this source.
    pub fn of(self, source: &SourceArgs) -> Lab {
        Lab { source: source.source.clone(), ..self }
    }

    /// The source that kernels are built from.
    pub fn source(&self) -> Result<Source> {
        Source::find(&self.cache, self.source.as_ref(), &|what| self.say(what))
    }

    pub fn kernel(&self) -> Result<KernelFolder> {
        KernelFolder::find(std::env::var_os("COWLAB_KERNEL").map(PathBuf::from).as_deref())
    }

    /// A line of progress on standard error.
    pub fn say(&self, what: &str) {
        if !self.quiet {
            output::say(what);
        }
    }

    /// What executes guests, of which the user is told why. Where KVM may be that, `image` boots to try.
    pub fn accelerator(
        &self,
        wanted: AcceleratorChoice,
        image: impl FnOnce() -> Result<PathBuf>,
    ) -> Result<Accelerator> {
        let (accelerator, why) =
            accelerator::decide(wanted, || accelerator::try_kvm(&self.cache, image))?;
        self.say(&format!("accelerator: {why}"));
        Ok(accelerator)
    }

    /// The first kernel of `variants`, built if it is not in the cache.
    pub fn image(&self, variants: &[Variant]) -> Result<PathBuf> {
        let first = variants.first().context("no kernel to boot")?;
        Ok(self.built(*first)?.image())
    }

    /// Do `what`, of which people are told, and which Ctrl-C ends.
    pub fn watched<T>(&self, what: impl FnOnce(&Watch<'_>) -> Result<T>) -> Result<T> {
        what(&Watch { say: &|text| self.say(text), interrupted: &self.interrupted })
    }

    /// The kernel of `variant`, built if it is not in the cache.
    pub fn built(&self, variant: Variant) -> Result<Built> {
        self.built_with(variant, None)
    }

    /// The same, the sources of the variant `traced` with the patch `change` where one is given.
    pub fn built_with(&self, variant: Variant, change: Option<&Path>) -> Result<Built> {
        let kernel = self.kernel()?;
        let order = Order { variant, source: self.source.clone(), change };
        self.watched(|watch| cowlab_lab::build(&self.cache, &kernel, &order, watch))
    }
}
