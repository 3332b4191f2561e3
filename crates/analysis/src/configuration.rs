// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a workload was measured under: a kernel, its policy, a page size.

use cowlab_schema::snapshot::{PAGE_SIZE_BYTES, POLICY};
use cowlab_schema::{Policy, VARIANT, fmt};

use crate::samples::Samples;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration<'a> {
    /// The guest's kernel; `None` where there was no guest.
    pub variant: Option<&'a str>,
    /// The policy; `stock` where none was set.
    pub policy: Policy,
    /// The size of the workload's pages, in bytes.
    pub page: u64,
}

#[derive(Debug, Clone)]
pub struct Configurations<'a> {
    all: Vec<Configuration<'a>>,
    base_page: u64,
    /// Whether several kernels were booted, so that their names tell something.
    kernels: bool,
}

impl Configuration<'_> {
    /// Whether the kernel copies the written page alone.
    pub fn is_plain(&self) -> bool {
        matches!(self.policy, Policy::Off | Policy::Stock)
    }

    pub fn of<'s>(&self, samples: &Samples<'s>) -> Samples<'s> {
        let own = samples.with(POLICY, self.policy).with(PAGE_SIZE_BYTES, self.page);
        self.variant.map_or_else(|| own.clone(), |variant| own.with(VARIANT, variant))
    }
}

impl<'a> Configurations<'a> {
    /// Every one of which there are samples, plain copy-on-write first.
    pub fn of(samples: &Samples<'a>) -> Configurations<'a> {
        let mut variants: Vec<Option<&str>> =
            samples.words(VARIANT).into_iter().map(Some).collect();
        let kernels = variants.len() > 1;
        if variants.is_empty() {
            variants.push(None);
        }
        let pages = samples.numbers(PAGE_SIZE_BYTES);
        let mut all = Vec::new();
        for policy in samples.each(POLICY) {
            for page in &pages {
                let each = variants.iter();
                all.extend(each.map(|v| Configuration { variant: *v, policy, page: *page }));
            }
        }
        all.retain(|one| !one.of(samples).is_empty());
        all.sort_by_cached_key(|one| (!one.is_plain(), one.policy.to_string(), one.page));
        Configurations { all, base_page: pages.first().copied().unwrap_or(4096), kernels }
    }

    pub fn iter(&self) -> impl Iterator<Item = Configuration<'a>> {
        self.all.iter().copied()
    }

    /// Whether it is what the others are compared with: plain copy-on-write with base pages.
    pub fn is_base(&self, one: &Configuration) -> bool {
        one.is_plain() && one.page == self.base_page
    }

    /// What it is compared with: of the same kernel, if that was measured.
    pub fn base(&self, of: &Configuration) -> Option<Configuration<'a>> {
        let mut bases = self.iter().filter(|one| self.is_base(one));
        let first = bases.next()?;
        let same = |one: &Configuration| one.variant == of.variant;
        Some([first].into_iter().chain(bases).find(same).unwrap_or(first))
    }

    /// `, 2 MiB pages`; nothing of base pages.
    pub fn pages(&self, page: u64) -> String {
        match page == self.base_page {
            true => String::new(),
            false => format!(", {} pages", fmt::size(page)),
        }
    }

    /// A configuration's name, after CCoW's.
    pub fn name(&self, one: &Configuration) -> String {
        let mut name = match one.policy {
            Policy::Off | Policy::Stock => "CoW".to_owned(),
            Policy::CoverageOf(0, Policy::REGION_KB) => "CCoW-All".to_owned(),
            policy @ Policy::CoverageOf(..) => policy.to_string().replace("ccow:", "CCoW-"),
            policy => format!("`{policy}`"),
        };
        name += &self.pages(one.page);
        match one.variant {
            Some(variant) if self.kernels => format!("{name} ({variant})"),
            _ => name,
        }
    }
}
