// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long forks stopped a process, as a histogram of fixed bounds. Pure.

use cowlab_schema::live;
use serde::Serialize;

/// Upper bounds, inclusive: 100 µs to 5 s, three a decade. Fixed, so that histograms of hosts and of
/// days add up.
pub const BOUNDS_NS: [u64; 15] = [
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
];

live! {
    "watch";
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    pub struct Stops {
        /// Forks whose stop is known.
        count: u64;
        /// All stops together.
        sum_ns: u64;
        /// The longest; `None` before the first.
        max_ns: Option<u64>;
        /// The last stop at a fork
        last_ns: Option<u64> => sample "last_stop_ns" in ns;
        /// How many fell below or on each of [`BOUNDS_NS`] and above the one before; the last is what was longer
        /// than all.
        buckets: [u64; BOUNDS_NS.len() + 1];
    }
}

impl Stops {
    pub fn add(&mut self, stop_ns: u64) {
        self.count += 1;
        self.sum_ns += stop_ns;
        self.max_ns = self.max_ns.max(Some(stop_ns));
        self.last_ns = Some(stop_ns);
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < stop_ns);
        self.buckets[bucket] += 1;
    }

    pub(super) fn add_all(&mut self, of: &Stops) {
        self.count += of.count;
        self.sum_ns += of.sum_ns;
        self.max_ns = self.max_ns.max(of.max_ns);
        self.last_ns = self.last_ns.or(of.last_ns);
        self.buckets.iter_mut().zip(of.buckets).for_each(|(sum, more)| *sum += more);
    }

    /// The upper bound in ns of each bucket, `None` of the last, with what is in it.
    pub fn by_bound(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = BOUNDS_NS.iter().copied().map(Some).chain([None]);
        bounds.zip(self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        let mut stops = Stops::default();
        assert_eq!(stops.max_ns, None);
        for stop in [1, 100_000, 100_001, 6_000_000_000] {
            stops.add(stop);
        }
        assert_eq!((stops.buckets[0], stops.buckets[1], stops.buckets[15]), (2, 1, 1));
        assert_eq!((stops.count, stops.last_ns), (4, Some(6_000_000_000)));
        assert_eq!(stops.by_bound().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!(stops.by_bound().last(), Some((None, 1)));
    }
}
