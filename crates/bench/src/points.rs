// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random points that the model was not fitted to.

use crate::probes::Probe;
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::{Cell, Writer, predict_check};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::calibrate::{Cycle, written_forks};
use crate::task::Task;

/// The name of these measurements in samples.
const BENCH: &str = predict_check::BENCH.name;

pub const POINTS: usize = 40;

const SMALLEST_BYTES: f64 = (4 << 20) as f64;
const LARGEST_BYTES: f64 = (1 << 30) as f64;

/// Points chosen by `seed`: sizes evenly spread over their logarithm, fractions evenly, writers and
/// numbers of threads in turn.
pub fn points(seed: u64, page: u64, other_cpus: bool, largest_bytes: u64) -> Vec<DoFork> {
    let mut random = StdRng::seed_from_u64(seed);
    let largest = LARGEST_BYTES.min(largest_bytes as f64).max(SMALLEST_BYTES);
    (0..POINTS)
        .map(|index| {
            let bytes = SMALLEST_BYTES * (largest / SMALLEST_BYTES).powf(random.random::<f64>());
            let fraction = (random.random::<f64>() * 1000.0).round() / 1000.0;
            let pages = bytes as u64 / page;
            let writer = if index % 2 == 0 { Writer::Child } else { Writer::Parent };
            let threads = u32::from(other_cpus && index % 4 >= 2);
            let forks = written_forks(pages * page);
            DoFork { writer, threads, ..DoFork::new(forks, pages * page, fraction, page) }
        })
        .collect()
}

/// Measure each point once a round.
pub fn tasks(points: Vec<DoFork>) -> Vec<Task> {
    let task = |(index, settings): (usize, DoFork)| {
        Task::new(format!("{BENCH}: point {}", index + 1), move |runner, round| {
            let result = settings.run(runner)?;
            let mut params = settings.params();
            predict_check::POINT.put(&mut params, index as u64);
            let mut out = round.record(BENCH, params, result.start_unix_ns);
            out.known(predict_check::ELAPSED_NS, Cycle::of(&result).map(|cycle| cycle.cycle_ns));
            Ok(())
        })
    };
    points.into_iter().enumerate().map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_follow_their_seed_and_range() {
        let chosen = points(1, 4096, true, u64::MAX);
        assert_eq!(chosen.len(), POINTS);
        assert_eq!(chosen, points(1, 4096, true, u64::MAX));
        assert_ne!(chosen, points(2, 4096, true, u64::MAX));
        for point in &chosen {
            assert!(
                (4 << 20..=1 << 30).contains(&(point.heap_bytes + 4096)),
                "{}",
                point.heap_bytes
            );
            assert_eq!(point.check(), Ok(()));
        }
        for (writer, threads) in
            [(Writer::Child, 0), (Writer::Child, 1), (Writer::Parent, 0), (Writer::Parent, 1)]
        {
            let of_kind = |p: &&DoFork| p.writer == writer && p.threads == threads;
            assert_eq!(chosen.iter().filter(of_kind).count(), POINTS / 4);
        }
        assert!(
            points(1, 4096, false, 64 << 20)
                .iter()
                .all(|p| p.threads == 0 && p.heap_bytes <= 64 << 20)
        );
    }
}
