// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The price of a copy by the program's own work between two and by the order of its writes.

use cowlab_schema::fmt::quantity;

use super::Question;
use super::terms::PerPage;
use crate::profile::{MachineProfile, Measured, PacePoint};

pub(super) struct CopyAtPace {
    /// Its own CPU time between two copies.
    pub own_ns: f64,
    pub copy: Measured,
}

/// `None` if the pace or its price is unknown. `flush_ns`: of the CPU time for one copy, what another running
/// thread adds to it.
pub(super) fn copy_at_pace(
    profile: &MachineProfile,
    question: &Question,
    rounds: u32,
    flush_ns: f64,
) -> Option<CopyAtPace> {
    let cpu_ns = question.cpu_ns_per_copy.filter(|_| question.among_work)? - flush_ns;
    let by_pace = |points: &[PacePoint]| {
        let points = points.iter().map(|point| (point.own_ns.max(1.0), point.copy));
        PerPage::pooled(points, rounds)
    };
    let scattered = by_pace(&profile.copies_by_pace);
    let in_order = by_pace(&profile.copies_in_order);
    let price = |own_ns: f64| {
        let scattered = scattered.at(own_ns)?;
        let Some(in_order) = in_order.at(own_ns) else { return Some(scattered) };
        let share = question.nearby_share.unwrap_or(0.5);
        let ns = scattered.ns + (in_order.ns - scattered.ns) * share;
        // Between the two if the order is unknown.
        let unseen = match question.nearby_share {
            Some(_) => 0.0,
            None => (scattered.ns - in_order.ns) / 12f64.sqrt() / ns,
        };
        let spread = scattered.log_spread + (in_order.log_spread - scattered.log_spread) * share;
        Some(Measured { ns, log_spread: spread.hypot(unseen) })
    };
    // The rest beside the copy is the program's own work, on which the copy's price depends: their sum
    // grows with it.
    let (mut low, mut high) = (1.0, cpu_ns.max(1.0));
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        match middle + price(middle)?.ns < cpu_ns {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(CopyAtPace { own_ns: low, copy: price(low)? })
}

pub(super) fn reasons(
    profile: &MachineProfile,
    question: &Question,
    rounds: u32,
    flush_ns: f64,
) -> Vec<String> {
    let Some(CopyAtPace { own_ns, copy }) = copy_at_pace(profile, question, rounds, flush_ns)
    else {
        return Vec::new();
    };
    let ends = profile.copies_by_pace.first().zip(profile.copies_by_pace.last());
    let [own, copy] = [own_ns, copy.ns].map(|ns| quantity(ns, "ns"));
    let order = question.nearby_share.filter(|_| !profile.copies_in_order.is_empty());
    let order = order.map_or_else(String::new, |share| {
        format!(", {:.0}% near a page copied just before", share * 100.0)
    });
    ends.filter(|_| question.written > 0)
        .map(|(quick, slow)| {
            let [quick, slow] = [quick, slow].map(|point| quantity(point.copy.ns, "ns"));
            format!(
                "copies: {own} of the program's own work between two{order}: one costs {copy} ({quick} in a \
                 loop that does nothing else, {slow} with much work and scattered writes)"
            )
        })
        .into_iter()
        .collect()
}
