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
use cowlab_lab::build::Prepare;
use cowlab_lab::source::Source;
use cowlab_lab::{
    AcceleratorChoice, Built, Cache, KernelFolder, Order, SourceChoice, Traced, Variant, Watch,
    accelerator,
};
use cowlab_store::Accelerator;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::SourceArgs;
use crate::output;
use crate::signals;

/// Memory of a guest that nobody measures in.
pub const GUEST_BYTES: u64 = 4 << 30;
/// CPUs of a guest.
pub const GUEST_CPUS: u32 = 2;

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
    /// Sources and kernels.
    pub cache: Cache,
    /// Set by Ctrl-C.
    pub interrupted: Arc<AtomicBool>,
    /// Whether nothing but errors is said.
    pub quiet: bool,
    /// What kernels are built from; what was fetched last if not given.
    pub source: Option<SourceChoice>,
}

impl Lab {
    /// Open the cache.
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

    /// The repository's kernel/.
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

    /// Do `what` with a progress bar on a terminal.
    pub fn watched<T>(&self, what: impl FnOnce(&Watch<'_>) -> Result<T>) -> Result<T> {
        let bar = ProgressBar::no_length();
        bar.set_draw_target(ProgressDrawTarget::stderr());
        let bounded = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len}")?;
        let counting = ProgressStyle::with_template("{elapsed_precise} {spinner} {pos} objects")?;
        bar.set_style(counting);
        let say = |text: &str| bar.suspend(|| self.say(text));
        let progress = |done: u64, of: Option<u64>| {
            if let (Some(of), None) = (of, bar.length()) {
                bar.set_style(bounded.clone());
                bar.set_length(of);
            }
            bar.set_position(bar.length().map_or(done, |of| done.min(of)));
        };
        let watch = Watch { say: &say, progress: &progress, interrupted: &self.interrupted };
        let result = what(&watch);
        bar.finish_and_clear();
        result
    }

    /// The kernel of `variant`, built if it is not in the cache.
    pub fn built(&self, variant: Variant) -> Result<Built> {
        self.built_as(Order::of(variant), None)
    }

    /// What is ordered, built if it is not in the cache. The variant `traced` is instrumented, after
    /// the patch `change` where one is given.
    pub fn built_as(&self, order: Order<'_>, change: Option<&Path>) -> Result<Built> {
        let kernel = self.kernel()?;
        let traced = match order.variant {
            Variant::Traced => Some(Traced::read(&kernel, change)?),
            _ => None,
        };
        let prepare = traced.as_ref().map(|traced| traced as &dyn Prepare);
        let order = Order {
            variant: order.variant,
            source: self.source.clone(),
            through: order.through,
            jobs: order.jobs,
            prepare,
        };
        self.watched(|watch| cowlab_lab::build(&self.cache, &kernel, &order, watch))
    }
}
