// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policies of a kernel that copies ahead of the faults, or its page tables after fork.

use super::super::forecast::spanning;
use super::super::{Advice, Choice, exactly};
use super::{Choices, Cost, Forecast};
use crate::cost::{Predicted, Question, deferred, plus, scaled};

/// The coverage from which on a region is copied whole: `vm.cow_precopy=2`'s default, per cent.
const COVERAGE_PERCENT: u64 = 80;

impl Choices<'_> {
    /// Policies of the patched kernel that are asked for: those that were replayed, and coverage by the map.
    pub(super) fn policies(&self) -> Vec<Advice> {
        let app = self.application;
        let wanted = &self.surroundings.policies;
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut all: Vec<Advice> = app
            .replays
            .iter()
            .map(|of| self.policy(&of.policy, of.faults, of.ahead, of.wasted))
            .collect();
        let names = |prefix: &str| app.replays.iter().any(|of| of.policy.starts_with(prefix));
        if !names("ccow")
            && let Some(regions) = &app.regions
        {
            let mut left = (0, 0, 0);
            for region in regions.iter().filter(|region| region.written > 0) {
                // One fault, and the rest of what was there when it forked.
                if region.written * 100 >= region.pages * COVERAGE_PERCENT {
                    left.0 += 1;
                    left.1 += region.pages - 1;
                    left.2 += region.pages - region.written;
                } else {
                    left.0 += region.written;
                }
            }
            let name = format!("ccow:{COVERAGE_PERCENT}");
            let mut by_coverage = self.policy(&name, left.0, left.1, left.2);
            by_coverage.notes.push(
                "ccow: the coverage of this interval is taken for that of the one before".into(),
            );
            all.push(by_coverage);
        }
        if !names("next") {
            all.push(Advice {
                choice: Choice::Policy("next".into()),
                what: "the kernel policy next".into(),
                step: "vm.cow_precopy=1 of the patched kernel".into(),
                forecast: Err("needs the order of the writes".into()),
                notes: Vec::new(),
            });
        }
        all.push(self.defer());
        // `ccow` and `ccow:80` mean the one there is.
        let kind = |name: &str| name.split(':').next().map(str::to_owned);
        all.retain(|one| match &one.choice {
            Choice::Policy(name) => wanted.iter().any(|of| kind(of) == kind(name)),
            _ => false,
        });
        all
    }

    /// Page tables that are copied after fork.
    fn defer(&self) -> Advice {
        let (app, base) = (self.application, self.page());
        let forecast = || -> Cost<Forecast> {
            let small = match app.huge_pages {
                0 => app.pages,
                huge => app.pages.saturating_sub(huge * (self.huge_page()? / base)),
            };
            let question = Question {
                pages: small,
                written: app.written.min(small),
                written_before: app.written_before.min(small),
                ..app.question(base, base)
            };
            let then = deferred(self.profile, &question, app.kept_pages(), app.huge_pages)
                .map_err(|error| error.to_string())?;
            let now = self.now.writes_ns;
            let writes_ns = Predicted { low: now.low, ..plus(now, then.tables_ns, 1.0) };
            Ok(Forecast { stop_ns: then.fork_ns, writes_ns, ..self.now })
        };
        Advice {
            choice: Choice::Policy("defer".into()),
            what: "the kernel policy defer".into(),
            step: "vm.cow_defer=2 of the patched kernel (x86-64)".into(),
            forecast: forecast(),
            notes: vec![
                "the kernel policy defer: what a patched kernel would do. The writes are the most: \
                 the child copies some of the page tables before them. The child's end and memory \
                 are as now, and less where it executes or ends at once"
                    .into(),
            ],
        }
    }

    fn policy(&self, name: &str, faults: u64, ahead: u64, wasted: u64) -> Advice {
        let written = self.application.written.max(1) as f64;
        let one_fault = scaled(self.now.writes_ns, 1.0 / written);
        // A page copied ahead costs its copy at least, and at most what it costs one by one.
        let forecast = || -> Cost<Forecast> {
            let ahead_ns = spanning(self.cost("copy_ns_per_page")?, self.cost("cow_populate_ns")?);
            let faulted = scaled(one_fault, faults as f64);
            Ok(Forecast {
                stop_ns: self.now.stop_ns,
                rest_ns: self.now.rest_ns,
                writes_ns: plus(faulted, ahead_ns, ahead as f64),
                extra_bytes: exactly(self.now.extra_bytes.value + (wasted * self.page()) as f64),
            })
        };
        Advice {
            choice: Choice::Policy(name.to_owned()),
            what: format!("the kernel policy {name}"),
            step: format!("vm.cow_precopy of the patched kernel, as --policy {name}"),
            forecast: forecast(),
            notes: vec![
                "a page copied ahead is priced between its copy alone and what a copy without its \
                 trap costs one by one"
                    .into(),
            ],
        }
    }
}
