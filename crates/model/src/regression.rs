// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A straight line through points, as Smith and Maguire (1988) fit it, with what they leave out:
//! weights, intervals and residuals.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::stats::Estimate;

/// How much each point counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Weighting {
    /// Equally, as published: the largest points decide.
    Ordinary,
    /// By 1/y²: relative residuals are minimised, so that small points count as much.
    Relative,
}

/// A point that a line was fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// Where.
    pub x: f64,
    /// Measured there.
    pub y: f64,
    /// The line there.
    pub line: f64,
}

impl Fitted {
    /// (measured − line) ÷ line.
    pub fn relative_residual(&self) -> f64 {
        (self.y - self.line) / self.line
    }
}

/// A fitted line. `count` in its estimates is the number of points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Growth of y per x, with its 95% interval (Student's t).
    pub slope: Estimate,
    /// y at x = 0, likewise.
    pub intercept: Estimate,
    /// Share of the (weighted) variance that the line explains.
    pub r_squared: f64,
    /// The points.
    pub points: Vec<Fitted>,
}

impl Line {
    /// The line at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept.value + self.slope.value * x
    }

    /// The point with the largest relative residual.
    pub fn worst(&self) -> Option<&Fitted> {
        let size = |p: &&Fitted| p.relative_residual().abs();
        self.points.iter().max_by(|a, b| size(a).total_cmp(&size(b)))
    }
}

/// Fit a line to `points` of (x, y). `None` with fewer than three, or if all x are equal.
pub fn fit(points: &[(f64, f64)], weighting: Weighting) -> Option<Line> {
    if points.len() < 3 {
        return None;
    }
    let weight = |y: f64| match weighting {
        Weighting::Ordinary => 1.0,
        Weighting::Relative => 1.0 / (y * y),
    };
    // The normal equations of y = intercept + slope · x.
    let (mut weights, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(x, y) in points {
        let w = weight(y);
        weights += w;
        wx += w * x;
        wxx += w * x * x;
        wy += w * y;
        wxy += w * y * x;
    }
    let determinant = weights * wxx - wx * wx;
    if determinant == 0.0 {
        return None;
    }
    // The diagonal of the inverse, and what is beside it.
    let (variances, covariance) = ([wxx / determinant, weights / determinant], -wx / determinant);
    let beta = [variances[0] * wy + covariance * wxy, covariance * wy + variances[1] * wxy];
    let line = |x: f64| beta[0] + beta[1] * x;

    let mean = wy / weights;
    let residual: f64 = points.iter().map(|p| weight(p.1) * (p.1 - line(p.0)).powi(2)).sum();
    let total: f64 = points.iter().map(|p| weight(p.1) * (p.1 - mean).powi(2)).sum();

    let freedom = (points.len() - 2) as f64;
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.975);
    let coefficient = |i: usize| {
        let half = t * (variances[i] * residual / freedom).sqrt();
        Estimate { value: beta[i], low: beta[i] - half, high: beta[i] + half, count: points.len() }
    };
    Some(Line {
        slope: coefficient(1),
        intercept: coefficient(0),
        r_squared: if total > 0.0 { 1.0 - residual / total } else { 1.0 },
        points: points.iter().map(|&(x, y)| Fitted { x, y, line: line(x) }).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_line_is_found() {
        let points: Vec<_> = (0..6).map(|i| (f64::from(i), 3.0 + 2.0 * f64::from(i))).collect();
        for weighting in [Weighting::Ordinary, Weighting::Relative] {
            let line = fit(&points, weighting).unwrap();
            assert!((line.slope.value - 2.0).abs() < 1e-9);
            assert!((line.intercept.value - 3.0).abs() < 1e-9);
            assert!((line.r_squared - 1.0).abs() < 1e-9);
            assert!(line.worst().unwrap().relative_residual().abs() < 1e-9);
        }
    }

    /// Reference: R 4.3, lm(y ~ x) and confint() on the same points.
    #[test]
    fn intervals_are_those_of_ordinary_least_squares() {
        let points = [(1.0, 2.1), (2.0, 3.9), (3.0, 6.2), (4.0, 7.8), (5.0, 10.1)];
        let line = fit(&points, Weighting::Ordinary).unwrap();
        assert!((line.slope.value - 1.99).abs() < 1e-9);
        assert!((line.intercept.value - 0.05).abs() < 1e-9);
        // residual sum of squares 0.107, s² = 0.107/3, Sxx = 10, t(3) = 3.18245
        let half = 3.182_446 * (0.107_f64 / 3.0 / 10.0).sqrt();
        assert!((line.slope.high - line.slope.value - half).abs() < 1e-6);
    }

    #[test]
    fn relative_weights_serve_small_points() {
        let points = [(1.0, 10.0), (10.0, 20.0), (1000.0, 1500.0), (10_000.0, 13_000.0)];
        let worst =
            |weighting| fit(&points, weighting).unwrap().worst().unwrap().relative_residual().abs();
        assert!(worst(Weighting::Relative) < worst(Weighting::Ordinary));
        assert!(fit(&points[..2], Weighting::Ordinary).is_none());
        assert!(fit(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)], Weighting::Ordinary).is_none());
    }
}
