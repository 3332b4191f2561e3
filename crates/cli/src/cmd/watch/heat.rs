// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A heat map of regions in as many cells as fit. Pure.

use cowlab_observe::watch::RegionRow;

pub const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// The share of each cell that is copied. Regions follow each other by address, holes left out, so
/// that the map shows memory and not address space; a cell is one or more of them.
pub fn cells(regions: &[RegionRow], at_most: usize) -> Vec<f64> {
    let per_cell = regions.len().div_ceil(at_most.max(1)).max(1);
    regions
        .chunks(per_cell)
        .map(|chunk| {
            let private: u64 = chunk.iter().map(|row| u64::from(row.private_pages)).sum();
            let shared: u64 = chunk.iter().map(|row| u64::from(row.shared_pages)).sum();
            private as f64 / (private + shared).max(1) as f64
        })
        .collect()
}

/// The sign of a share. What is copied at all never looks like nothing.
pub fn shade(share: f64) -> char {
    if share <= 0.0 {
        return SHADES[0];
    }
    let step = (share * (SHADES.len() - 1) as f64).ceil() as usize;
    SHADES[step.clamp(1, SHADES.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(private_pages: u32, shared_pages: u32) -> RegionRow {
        RegionRow { start: 0, private_pages, shared_pages }
    }

    #[test]
    fn cells_hold_as_many_regions_as_they_must() {
        let regions = [row(512, 0), row(0, 512), row(128, 384)];
        assert_eq!(cells(&regions, 10), [1.0, 0.0, 0.25]);
        assert_eq!(cells(&regions, 2), [0.5, 0.25]);
        assert_eq!(cells(&regions, 0).len(), 1);
        assert!(cells(&[], 10).is_empty());
        assert_eq!(cells(&[row(0, 0)], 1), [0.0]);
    }

    #[test]
    fn a_single_copy_is_seen() {
        assert_eq!(shade(0.0), '·');
        assert_eq!(shade(0.0001), '░');
        assert_eq!(shade(0.5), '▒');
        assert_eq!(shade(1.0), '█');
        assert_eq!(shade(7.0), '█');
    }
}
