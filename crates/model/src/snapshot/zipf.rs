// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark's choice of blocks.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::Store;

/// Seed of choices that are not the measured ones.
const OTHERS: u64 = 0x0771;

/// Chooses pages as the benchmark chooses blocks, by Walker's alias table (as probes/zipf.h).
pub(super) struct Zipf {
    random: StdRng,
    /// By rank: how much of its own column a rank keeps, and who has the rest.
    columns: Vec<(f64, u32)>,
    page_of: Vec<u32>,
}

impl Zipf {
    pub(super) fn new(store: &Store) -> Zipf {
        let blocks = store.pages * store.blocks_per_page;
        let mut random = StdRng::seed_from_u64(store.seed);
        let mut page_of: Vec<u32> =
            (0..blocks).map(|block| (block / store.blocks_per_page) as u32).collect();
        if store.scattered {
            page_of.shuffle(&mut random);
        }
        Zipf { random, columns: columns(blocks, store.zipf_alpha), page_of }
    }

    /// Other choices by the same law, of the same blocks.
    pub(super) fn others(&self) -> Zipf {
        let random = StdRng::seed_from_u64(OTHERS);
        Zipf { random, columns: self.columns.clone(), page_of: self.page_of.clone() }
    }

    pub(super) fn next_page(&mut self) -> usize {
        let at = self.random.random_range(0..self.columns.len());
        let (kept, other) = self.columns[at];
        let rank = if self.random.random::<f64>() < kept { at } else { other as usize };
        self.page_of[rank] as usize
    }
}

fn columns(blocks: usize, alpha: f64) -> Vec<(f64, u32)> {
    let weights: Vec<f64> = (1..=blocks).map(|rank| (rank as f64).powf(-alpha)).collect();
    let mean = weights.iter().sum::<f64>() / blocks as f64;
    let mut columns: Vec<(f64, u32)> =
        weights.iter().enumerate().map(|(rank, weight)| (weight / mean, rank as u32)).collect();
    let (mut low, mut high): (Vec<usize>, Vec<usize>) =
        (0..blocks).partition(|rank| columns[*rank].0 < 1.0);
    while let (Some(small), Some(&large)) = (low.pop(), high.last()) {
        columns[small].1 = large as u32;
        columns[large].0 -= 1.0 - columns[small].0;
        if columns[large].0 < 1.0 {
            high.pop();
            low.push(large);
        }
    }
    columns
}
