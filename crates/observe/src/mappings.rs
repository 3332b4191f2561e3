// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mappings of a target.

use cowlab_machine::ProcessError;
use cowlab_machine::mappings::parse;
pub use cowlab_machine::mappings::{Details, Kind, Mapping, decode};

use crate::target::Target;

/// The mappings, by address.
pub fn mappings(of: &Target) -> Result<Vec<Mapping>, ProcessError> {
    read(of, "maps")
}

/// The same with [`Details`]: the kernel walks every page table for it, 15 ns a page or so. Needs a
/// kernel with CONFIG_PROC_PAGE_MONITOR.
pub fn detailed_mappings(of: &Target) -> Result<Vec<Mapping>, ProcessError> {
    read(of, "smaps")
}

fn read(of: &Target, file: &str) -> Result<Vec<Mapping>, ProcessError> {
    let text = of.read(file)?;
    if text.is_empty() {
        return Err(of.lost_memory());
    }
    Ok(parse(&of.path(file), &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_own_memory_is_seen_both_ways() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let all = mappings(&own).unwrap();
        for kind in [Kind::Heap, Kind::Stack, Kind::Data, Kind::Named] {
            assert!(all.iter().any(|mapping| mapping.kind == kind), "no {kind:?}");
        }
        let detailed = detailed_mappings(&own).unwrap();
        assert!(detailed.iter().all(|mapping| mapping.details.is_some()));
        assert!(detailed.iter().filter_map(|m| m.details.as_ref()?.rss_bytes).sum::<u64>() > 0);
    }
}
