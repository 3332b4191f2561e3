// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long one reading of a process takes: `read_time PID [ROUNDS]`.

use std::time::Instant;

use cowlab_observe::pagemap::{ScanFilter, category};
use cowlab_observe::{Pagemap, Target, children, mappings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let pid = words.next().ok_or("usage: read_time PID [ROUNDS]")?.parse()?;
    let rounds = words.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let target = Target::open(pid)?;
    let mut pagemap = Pagemap::open(&target)?;
    let there = category::PRESENT | category::SWAPPED;
    for _ in 0..rounds {
        let clock = Instant::now();
        let all = mappings::mappings(&target)?;
        let maps_ns = clock.elapsed().as_nanos();
        let (mut present, mut exclusive) = (0, 0);
        let clock = Instant::now();
        for mapping in all.iter().filter(|mapping| mapping.is_private()) {
            pagemap.for_each(&target, mapping.range.clone(), |_, pages| {
                present += pages.iter().filter(|page| page.is_anonymous()).count();
                exclusive += pages.iter().filter(|page| page.is_exclusive()).count();
            })?;
        }
        let entries_ns = clock.elapsed().as_nanos();
        let mut regions = 0;
        let clock = Instant::now();
        if pagemap.has_scan() {
            let wanted = ScanFilter { any_of: there, returned: there, ..ScanFilter::default() };
            for mapping in all.iter().filter(|mapping| mapping.is_private()) {
                pagemap.scan(&target, mapping.range.clone(), wanted, |_| regions += 1)?;
            }
        }
        let scan_ns = clock.elapsed().as_nanos();
        let clock = Instant::now();
        let found = children::children(&target)?.len();
        println!(
            "{} mappings {maps_ns} ns; {present} anonymous pages, {exclusive} exclusive, by entry \
             {entries_ns} ns; {regions} regions by scan {scan_ns} ns; {found} children {} ns",
            all.len(),
            clock.elapsed().as_nanos()
        );
    }
    Ok(())
}
