// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel copies when a shared page is written, by name.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::Value;

/// The depths that vm.cow_precopy_pages takes: one page-table page is the most.
const DEPTHS: RangeInclusive<u32> = 1..=512;

/// For messages.
const NAMES: &str = "stock (the kernel as it is), off, next, next:PAGES, next:PAGES:ORDER, ccow, \
                     ccow:THRESHOLD, ccow:THRESHOLD:ORDER:REGION_KB, defer";

/// The thresholds that vm.cow_threshold_pct takes.
const THRESHOLDS: RangeInclusive<u32> = 0..=100;

/// Its regions, which one fault copies whole where they are no larger.
const REGION_KB: u32 = 2048;

/// The sizes that vm.cow_region_kb takes; powers of two.
const REGIONS_KB: RangeInclusive<u32> = 32..=8192;

/// The orders that vm.cow_precopy_order takes, but for 0.
const ORDERS: RangeInclusive<u32> = 2..=8;

/// What is copied at a copy-on-write fault, and when fork's page tables are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Whatever the kernel is set to: `stock`.
    Stock,
    /// The page that was written: `off`.
    Off,
    /// So many pages that follow it as well: `next` for one, `next:16`.
    Next(u32),
    /// So many pages that follow it, into folios of up to 2^order pages: `next:512:4`.
    NextFolios(u32, u32),
    /// Of the 128 KiB around it what was written between the last two forks, with the kernel's own
    /// settings: `ccow`.
    Coverage,
    /// The whole region, if so much of it (in percent) was written between the last two forks, into
    /// folios of up to 2^order pages, and the region's size in KiB: CCoW's `ccow:80`,
    /// `ccow:0` for every region, `ccow:80:4`, and `ccow:80:0:32`.
    CoverageOf(u32, u32, u32),
    /// The page that was written; page tables after fork, when they are needed: `defer`.
    Defer,
}

impl Policy {
    /// The size of a region where none is named, in KiB: of a CCoW policy.
    pub const REGION_KB: u32 = REGION_KB;

    /// The forks before which the policy knows nothing of a process.
    pub fn forks_to_learn(self) -> u64 {
        match self {
            Policy::Stock
            | Policy::Off
            | Policy::Next(_)
            | Policy::NextFolios(..)
            | Policy::Defer => 0,
            // From the first on its pages are watched.
            Policy::Coverage | Policy::CoverageOf(..) => 1,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Stock => f.write_str("stock"),
            Policy::Off => f.write_str("off"),
            Policy::Next(1) => f.write_str("next"),
            Policy::Next(pages) => write!(f, "next:{pages}"),
            Policy::NextFolios(pages, order) => write!(f, "next:{pages}:{order}"),
            Policy::Coverage => f.write_str("ccow"),
            Policy::Defer => f.write_str("defer"),
            Policy::CoverageOf(threshold, 0, REGION_KB) => write!(f, "ccow:{threshold}"),
            Policy::CoverageOf(threshold, order, REGION_KB) => {
                write!(f, "ccow:{threshold}:{order}")
            }
            Policy::CoverageOf(threshold, order, region) => {
                write!(f, "ccow:{threshold}:{order}:{region}")
            }
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        match text.split_once(':') {
            None if text == "stock" => Ok(Policy::Stock),
            None if text == "off" => Ok(Policy::Off),
            None if text == "next" => Ok(Policy::Next(1)),
            None if text == "ccow" => Ok(Policy::Coverage),
            None if text == "defer" => Ok(Policy::Defer),
            Some(("next", rest)) => match numbers(text, rest, "pages of next:PAGES", DEPTHS)? {
                (pages, 0) => Ok(Policy::Next(pages)),
                (pages, order) => Ok(Policy::NextFolios(pages, order)),
            },
            Some(("ccow", rest)) => {
                let what = "threshold of ccow:THRESHOLD (percent)";
                let (rest, region) = match rest.splitn(3, ':').nth(2) {
                    Some(region) => {
                        (&rest[..rest.len() - region.len() - 1], region_kb(text, region)?)
                    }
                    None => (rest, REGION_KB),
                };
                let (threshold, order) = numbers(text, rest, what, THRESHOLDS)?;
                Ok(Policy::CoverageOf(threshold, order, region))
            }
            _ => Err(format!("unknown policy '{text}': choose one of {NAMES}")),
        }
    }
}

/// A number, and the order of folios if one follows.
fn numbers(
    text: &str,
    rest: &str,
    what: &str,
    range: RangeInclusive<u32>,
) -> Result<(u32, u32), String> {
    let (number, order) = rest.split_once(':').unwrap_or((rest, "0"));
    let number = number.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        format!("'{text}': the {what} must be in {}..{}", range.start(), range.end())
    })?;
    match order.parse() {
        Ok(order) if order == 0 || ORDERS.contains(&order) => Ok((number, order)),
        _ => Err(format!(
            "'{text}': the order after it must be 0 or in {}..{}",
            ORDERS.start(),
            ORDERS.end()
        )),
    }
}

fn region_kb(text: &str, region: &str) -> Result<u32, String> {
    let size = region.parse().ok();
    size.filter(|size: &u32| size.is_power_of_two() && REGIONS_KB.contains(size)).ok_or_else(|| {
        format!(
            "'{text}': the region must be a power of two in {}..{} (KiB)",
            REGIONS_KB.start(),
            REGIONS_KB.end()
        )
    })
}

impl Value for Policy {
    const KIND: &'static str = NAMES;
    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_printed() {
        let folios = Policy::NextFolios(512, 4);
        for policy in [Policy::Stock, Policy::Off, Policy::Next(1), Policy::Next(512), folios] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let coverage = [(0, 0, 2048), (80, 0, 2048), (100, 0, 2048), (80, 4, 2048), (80, 0, 32)]
            .map(|(threshold, order, region)| Policy::CoverageOf(threshold, order, region));
        for policy in coverage.into_iter().chain([Policy::Coverage, Policy::Defer]) {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("next:16:0".parse(), Ok(Policy::Next(16)));
        assert_eq!("next:1".parse(), Ok(Policy::Next(1)));
        assert_eq!("ccow:80:0:2048".parse(), Ok(Policy::CoverageOf(80, 0, REGION_KB)));
        assert_eq!(Policy::Next(1).to_string(), "next");
        for wrong in [
            "",
            "on",
            "next:",
            "next:0",
            "next:513",
            "next:-1",
            "next:1x",
            "off:1",
            "next:16:1",
            "next:16:9",
            "ccow:",
            "ccow:101",
            "ccow:-1",
            "ccow:80:1",
            "ccow:80:4:4",
            "ccow:80:0:48",
            "ccow:80:0:16384",
            "ccow:80:0:64:1",
            "ccows",
        ] {
            assert!(wrong.parse::<Policy>().is_err(), "{wrong}");
        }
        assert!("next:600".parse::<Policy>().unwrap_err().contains("1..512"));
        assert!("ccow:101".parse::<Policy>().unwrap_err().contains("0..100"));
    }
}
