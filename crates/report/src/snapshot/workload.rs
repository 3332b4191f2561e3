// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads, and what was measured of each.

use cowlab_analysis::configuration::{Configuration, Configurations};
use cowlab_analysis::samples::Samples;
use cowlab_schema::snapshot::{
    FORKS, Forked, PAGE_SIZE_BYTES, PHASE_PERCENT, PLACEMENT, POLICY, QUANTILE, SIZE_BYTES,
    THREADS, ZIPF_ALPHA,
};
use cowlab_schema::{Field, Key, VARIANT, Value};
use cowlab_store::Params;

use crate::fmt;

/// Parameters that are no workload's: its configurations', and parts of one figure.
const NOT_THE_WORKLOADS: [&dyn Field; 6] =
    [&POLICY, &PAGE_SIZE_BYTES, &FORKS, &VARIANT, &QUANTILE, &PHASE_PERCENT];

/// What all configurations of a workload have in common.
pub(super) struct Workload<'a> {
    params: Params,
    samples: Samples<'a>,
    pub(super) configurations: Configurations<'a>,
}

impl<'a> Workload<'a> {
    /// Every workload, in the order of its parameters.
    pub(super) fn all(samples: &Samples<'a>) -> Vec<Workload<'a>> {
        let all = samples.by_params(&NOT_THE_WORKLOADS).into_iter().map(|(params, samples)| {
            let configurations = Configurations::of(&samples.with(FORKS, Forked::Yes));
            Workload { params, samples, configurations }
        });
        all.collect()
    }

    /// A parameter that its configurations have in common.
    pub(super) fn param<T: Value>(&self, key: Key<T>) -> &str {
        self.params.get(key.name()).map_or("", String::as_str)
    }

    /// `α 1, 256 MiB scattered`.
    pub(super) fn name(&self) -> String {
        let size = SIZE_BYTES.of(&self.params).unwrap_or(0) as f64;
        let threads = match self.param(THREADS) {
            "0" => String::new(),
            threads => format!(", {threads} more threads running"),
        };
        let (alpha, placement) = (self.param(ZIPF_ALPHA), self.param(PLACEMENT));
        format!("α {alpha}, {} {placement}{threads}", fmt::tick(size, "bytes"))
    }

    /// What was measured under one of its configurations.
    pub(super) fn case(&self, one: &Configuration) -> Samples<'a> {
        one.of(&self.samples.with(FORKS, Forked::Yes))
    }

    pub(super) fn plain(&self, beside: &Configuration) -> Samples<'a> {
        self.configurations.base(beside).map_or_else(Samples::default, |one| self.case(&one))
    }

    /// The same writes without a fork, with pages of the same size.
    pub(super) fn reference(&self, of: &Configuration) -> Samples<'a> {
        let all = self.samples.with(FORKS, Forked::No).with(PAGE_SIZE_BYTES, of.page);
        // References are made under plain copy-on-write.
        let base = self.configurations.base(of);
        let own = base.map(|base| Configuration { page: of.page, ..base }.of(&all));
        own.filter(|own| !own.is_empty()).unwrap_or(all)
    }

    /// The same for what it is compared with.
    pub(super) fn plain_reference(&self, beside: &Configuration) -> Samples<'a> {
        let base = self.configurations.base(beside);
        base.map_or_else(Samples::default, |one| self.reference(&one))
    }

    pub(super) fn calibration(&self) -> Samples<'a> {
        self.samples.with(FORKS, Forked::Once)
    }
}
