// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a point lies off its line: only what the samples support.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::sweep::{FORKS, FractionLine, Point};
use cowlab_model::cost::{Question, predict};
use cowlab_model::profile::{CycleCurve, Writer};

use crate::cells;
use crate::fmt::{self, heap_size, percent, size, time};

/// Residuals up to this need no explanation.
pub(super) const LARGE: f64 = 0.1;

/// A sentence or more on the worst point of a line, if it lies off by more than [`LARGE`].
pub(super) fn worst_point(study: &Study, line: &FractionLine, points: &[Point]) -> Option<String> {
    let worst = line.relative.worst()?;
    let residual = worst.relative_residual();
    let point = points
        .iter()
        .find(|p| p.fraction == line.fraction && p.heap_bytes as f64 == worst.x)
        .filter(|_| residual.abs() > LARGE)?;
    let side = if residual > 0.0 { "above" } else { "below" };
    let mut out = format!(
        "Fraction {}: the point at {} lies {} {side} its line.",
        fmt::tick(line.fraction, ""),
        heap_size(point.heap_bytes),
        percent(residual.abs()),
    );
    let at = Place { study, line, point, line_ns: worst.line };
    // What the line has, and with it what the calibration knows beyond a straight line.
    let mut expected = worst.line;
    if let Some((reason, ns)) = at.size_of_page_cost()
        && ns.signum() == residual.signum()
        && ns.abs() > 0.01 * worst.line
    {
        expected += ns;
        out.push_str(&reason);
    }
    let left = point.real_ns.value / expected - 1.0;
    let noise =
        point.real_ns.count > 1 && (point.real_ns.low..=point.real_ns.high).contains(&expected);
    let known = expected != worst.line;
    out.push_str(&match (known, noise) {
        (true, true) => format!(
            " The remaining {} is noise: the interval over {} rounds is {}.",
            percent(left.abs()),
            fmt::count(point.real_ns.count as u64),
            cells::interval(point.real_ns.low, point.real_ns.high, "ns"),
        ),
        (true, false) if left.abs() <= residual.abs() / 4.0 => {
            format!(" That leaves {}.", percent(left.abs()))
        }
        (true, false) => format!(" That leaves {} unexplained.", percent(left.abs())),
        (false, true) => format!(
            " Noise: the interval over {} rounds, {}, contains the line.",
            fmt::count(point.real_ns.count as u64),
            cells::interval(point.real_ns.low, point.real_ns.high, "ns"),
        ),
        (false, false) => {
            " Neither the noise between rounds nor the growth of a page's cost with size that was \
             calibrated explains it."
                .to_owned()
        }
    });
    Some(out)
}

struct Place<'a> {
    study: &'a Study<'a>,
    line: &'a FractionLine,
    point: &'a Point,
    line_ns: f64,
}

impl Place<'_> {
    fn pages(&self) -> u64 {
        self.point.heap_bytes.div_ceil(self.study.profile.page_size_bytes)
    }

    /// What a page costs depends on how much memory is in use, which no straight line has: the
    /// model, calibrated at several sizes, less the line.
    fn size_of_page_cost(&self) -> Option<(String, f64)> {
        let profile = &self.study.profile;
        let page = profile.page_size_bytes;
        let written_bytes = self.point.heap_bytes as f64 * self.point.fraction;
        let question = Question {
            pages: self.pages(),
            written: (written_bytes / page as f64).ceil() as u64,
            written_before: 0,
            writer: Writer::Child,
            threads: 0.0,
            page_size_bytes: page,
            split_pages: None,
            among_work: false,
            cpu_ns_per_copy: None,
            nearby_share: None,
            vmas: None,
        };
        let ns = predict(profile, &question).ok()?.elapsed_ns.value * FORKS - self.line_ns;
        let here = self.point.real_ns.value - self.line.relative.intercept.value;
        let mut reason = format!(
            " A page costs {} here and {} by the line's slope: costs change with the size of the \
             memory, which a straight line cannot follow. The calibration, made at several sizes, \
             puts this point {} {} the line.",
            time(here / FORKS / self.pages() as f64),
            time(self.line.relative.slope.value * page as f64 / FORKS),
            percent((ns / self.line_ns).abs()),
            if ns > 0.0 { "above" } else { "below" },
        );
        if let Some((small, large)) = growth(&profile.curves, page)
            && written_bytes > 0.0
        {
            reason.push_str(&format!(
                " There a page's copy costs {} in a heap of {} and {} in one of {} (caches); \
                 originals and copies of this point are {}.",
                time(small.1),
                size(small.0),
                time(large.1),
                size(large.0),
                size((written_bytes * 2.0) as u64),
            ));
        }
        Some((reason, ns))
    }
}

/// Write cost a page in the smallest and in the largest calibrated heap: (bytes, ns).
fn growth(curves: &[CycleCurve], page: u64) -> Option<((u64, f64), (u64, f64))> {
    let curve = curves.iter().find(|c| c.writer == Writer::Child && c.threads == 0)?;
    let costs: Vec<(u64, f64)> = curve
        .points
        .iter()
        .filter_map(|p| Some((p.pages * page, p.written?.write.ns / p.pages as f64)))
        .collect();
    (costs.len() > 1).then(|| (costs[0], costs[costs.len() - 1]))
}
