// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long the next fork will stop the target, now and once it is tended.

use cowlab_model::cost::{Predicted, Question, fork_with_huge_pages};
use cowlab_model::profile::{MachineProfile, Writer};
use cowlab_model::steady::COLLAPSE_NS;
use serde::Serialize;

use crate::tend::plan::{CollapsePlan, Prices};
use crate::tend::region::Survey;

/// Prices of a machine profile; a collapse is measured beforehand.
pub fn prices(profile: &MachineProfile, collapse_ns: Option<u64>) -> Prices {
    let usual = MachineProfile::usual();
    let cost = |name: &str| {
        let known = [profile, &usual].into_iter().filter_map(|of| of.cost(name));
        known.into_iter().find(|ns| *ns > 0.0).unwrap_or_default()
    };
    Prices {
        pte_ns_per_page: cost("pte_among_work_ns_per_page"),
        huge_entry_ns: cost("thp_fork_among_work_ns_per_huge_page"),
        split_ns: cost("thp_split_ns"),
        collapse_ns: collapse_ns.map_or(COLLAPSE_NS, |ns| ns as f64),
    }
}

/// The stop at the next fork.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stops {
    pub now: Predicted,
    /// With every step of the plan done.
    pub after: Predicted,
}

/// Predict both. An error says what the profile lacks.
pub fn stops(
    profile: &MachineProfile,
    survey: &Survey,
    plan: &CollapsePlan,
) -> Result<Stops, String> {
    let pages_per_region =
        profile.huge_page_bytes.unwrap_or_default() / profile.page_size_bytes.max(1);
    let gained = plan.steps.len() as u64;
    let filled: u64 = plan.steps.iter().map(|step| step.absent_pages).sum();
    let small_after = (survey.small_pages + filled).saturating_sub(gained * pages_per_region);
    let huge_after = survey.huge_regions + gained;
    Ok(Stops {
        now: stop(profile, survey, survey.small_pages, survey.huge_regions)?,
        after: stop(profile, survey, small_after, huge_after)?,
    })
}

/// The stop at a fork of what was surveyed with so many base pages and huge pages, priced as `advise`
/// does: by the parent's writes, which dirty the entries that a fork copies.
fn stop(
    profile: &MachineProfile,
    survey: &Survey,
    small_pages: u64,
    huge: u64,
) -> Result<Predicted, String> {
    let question = Question {
        pages: small_pages,
        written: 0,
        // Which entries were written since the last fork cannot be seen from outside: all may be.
        written_before: small_pages,
        writer: Writer::Parent,
        threads: f64::from(survey.threads),
        page_size_bytes: profile.page_size_bytes,
        split_pages: None,
        among_work: true,
        cpu_ns_per_copy: None,
        nearby_share: None,
        vmas: Some(survey.vmas),
    };
    fork_with_huge_pages(profile, &question, huge).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use cowlab_model::profile::{Cost, CycleCurve, CyclePoint, Measured};
    use cowlab_model::stats::Estimate;

    use super::*;
    use crate::tend::plan::Step;

    fn profile() -> MachineProfile {
        let measured = |ns: f64| Measured { ns, log_spread: 0.01 };
        let point = |pages: u64| CyclePoint {
            pages,
            fork: measured(50_000.0 + 40.0 * pages as f64),
            rest: measured(1000.0),
            written: (pages > 0).then(|| cowlab_model::profile::WrittenCycle {
                fork: measured(50_000.0 + 45.0 * pages as f64),
                write: measured(2000.0 * pages as f64),
                rest: measured(1000.0),
            }),
        };
        let entry = Cost {
            name: String::new(),
            unit: "ns".into(),
            estimate: Estimate { value: 2000.0, low: 1800.0, high: 2200.0, count: 6 },
        };
        MachineProfile {
            page_size_bytes: 4096,
            huge_page_bytes: Some(2 << 20),
            costs: [("thp_fork_among_work_ns_per_huge_page".to_owned(), entry)].into(),
            curves: vec![CycleCurve {
                writer: Writer::Parent,
                threads: 0,
                rounds: 5,
                misfit: Some(0.01),
                points: [0, 4096, 262_144].map(point).into(),
            }],
            entries_among_work: Vec::new(),
            copies_by_pace: Vec::new(),
            copies_in_order: Vec::new(),
            is_usual: false,
        }
    }

    #[test]
    fn regions_that_become_huge_cost_one_entry_each() {
        let survey = Survey { small_pages: 100_000, huge_regions: 10, ..Survey::default() };
        let step = Step { start: 0, saved_ns: 1.0, forks: 1.0, absent_pages: 0 };
        let mut plan = CollapsePlan { steps: vec![step; 190], ..CollapsePlan::default() };
        plan.steps[0].absent_pages = 8;
        let stops = stops(&profile(), &survey, &plan).unwrap();
        let expected_now = 50_000.0 + 45.0 * 100_000.0 + 10.0 * 2000.0;
        assert!((stops.now.value / expected_now - 1.0).abs() < 1e-3, "{stops:?}");
        let small = 100_000.0 + 8.0 - 190.0 * 512.0;
        let expected_after = 50_000.0 + 45.0 * small + 200.0 * 2000.0;
        assert!((stops.after.value / expected_after - 1.0).abs() < 1e-3, "{stops:?}");
        assert!(stops.after.low < expected_after && expected_after < stops.after.high);
    }

    #[test]
    fn a_profile_without_huge_pages_is_not_guessed_at() {
        let mut profile = profile();
        profile.costs.clear();
        let survey = Survey { small_pages: 10, huge_regions: 1, ..Survey::default() };
        let said = stops(&profile, &survey, &CollapsePlan::default()).unwrap_err();
        assert!(said.contains("cowlab calibrate"), "{said}");
        assert!(prices(&profile, None).pte_ns_per_page > 0.0);
    }
}
