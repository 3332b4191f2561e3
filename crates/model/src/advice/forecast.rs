// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a fork costs under a choice, and how such figures are put together.

use serde::Serialize;

use crate::cost::{Predicted, Prediction};

/// What one fork and the writes after it would cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Forecast {
    /// The fork call: how long the parent stands still.
    pub stop_ns: Predicted,
    /// What copy-on-write adds to the writes after it.
    pub writes_ns: Predicted,
    /// What the child costs besides: its start, its exit, the wait for it. It takes no time of a parent
    /// that does not wait.
    pub rest_ns: Predicted,
    /// Memory that is taken while the child lives.
    pub extra_bytes: Predicted,
}

impl Forecast {
    /// The forecast of a prediction.
    pub fn of(prediction: &Prediction) -> Forecast {
        Forecast {
            stop_ns: prediction.fork_ns,
            writes_ns: prediction.write_ns,
            rest_ns: prediction.rest_ns,
            extra_bytes: super::exactly(prediction.extra_bytes as f64),
        }
    }

    /// Whether it is worth having instead of `now`: by the stop, or by all of the time.
    pub fn saves_of(&self, now: &Forecast) -> bool {
        let less = |then: f64, now: f64| then < now * (1.0 - super::WORTH);
        less(self.stop_ns.value, now.stop_ns.value) || less(self.time_ns(), now.time_ns())
    }

    /// How often a process forks under this forecast that forks `per_s` times a second under `now`, and
    /// waits for each child: what else is done for one takes as long as before.
    pub fn forks_per_s(&self, now: &Forecast, per_s: f64) -> f64 {
        let cycle_ns = |of: &Forecast| of.time_ns() + of.rest_ns.value;
        let others_ns = (1e9 / per_s - cycle_ns(now)).max(0.0);
        1e9 / (others_ns + cycle_ns(self))
    }

    /// Stop and writes together.
    pub fn time_ns(&self) -> f64 {
        self.stop_ns.value + self.writes_ns.value
    }
}

/// Anything between two figures, with the middle as the figure.
pub(super) fn between(one: f64, other: f64) -> Predicted {
    Predicted { value: (one + other) / 2.0, low: one.min(other), high: one.max(other) }
}

/// From the least of one to the most of the other.
pub(super) fn spanning(least: Predicted, most: Predicted) -> Predicted {
    Predicted {
        value: (least.value + most.value) / 2.0,
        low: least.low.min(most.low),
        high: least.high.max(most.high),
    }
}
