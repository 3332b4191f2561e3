// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The coverage map: which regions of 2 MB were written, and how much of each.

use cowlab_analysis::samples::Samples;
use cowlab_schema::footprint::{MAPPING, REGION, WRITE_FRACTION};

use super::Row;
use crate::document::{Axis, Plot, Series};

const MOST_MAPS: usize = 4;
/// Regions of one row of a map: 128 MB.
const ROW: usize = 64;

/// A map for each of the largest rows with more than one region.
pub(super) fn plots(rows: &[Row], samples: &Samples) -> Vec<Plot> {
    let maps = rows.iter().filter_map(|row| plot(row, samples));
    let mut plots: Vec<Plot> = maps.take(MOST_MAPS).collect();
    for (index, plot) in plots.iter_mut().enumerate() {
        plot.id = format!("footprint-map-{}", index + 1);
    }
    plots
}

fn plot(row: &Row, samples: &Samples) -> Option<Plot> {
    let mut params = row.params.clone();
    params.remove(MAPPING.name());
    let all = samples.of_metric(WRITE_FRACTION);
    let own = all.by_params(&[&MAPPING, &REGION]).remove(&params)?;
    let regions = own.numbers(REGION);
    let last = *regions.last().filter(|_| regions.len() > 1)? as usize;
    let mut shares = vec![f64::NAN; last + 1];
    for region in regions {
        if let Some(share) = own.with(REGION, region).first(WRITE_FRACTION) {
            shares[region as usize] = share;
        }
    }
    let z: Vec<Vec<f64>> = shares.chunks(ROW).map(<[f64]>::to_vec).collect();
    let places = (0..ROW.min(shares.len())).map(|place| place as f64).collect();
    let lines = (0..z.len()).map(|line| (line * ROW) as f64).collect();
    let series = Series::map(row.name(), [places, lines], z);
    let plot = Plot::new(
        "footprint-map",
        format!("Where {} wrote", row.name()),
        Axis::linear("Region of 2 MB", ""),
        Axis::linear("First region of the row", ""),
    );
    Some(
        plot.caption(
            "Regions that have private pages, in order of address; the gaps between mappings are \
             left out. Of several spans the one with the most pages.",
        )
        .z(Axis::linear("Written", "fraction"))
        .with(series),
    )
}
