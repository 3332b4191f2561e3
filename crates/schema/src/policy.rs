// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copy-on-write policies by name.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::Value;

/// Values of vm.cow_precopy_pages: at most one page-table page.
const DEPTHS: RangeInclusive<u32> = 1..=512;

/// For messages.
const NAMES: &str = "stock (the kernel as it is), off, next, next:PAGES, next:PAGES:ORDER, ccow, \
                     ccow:THRESHOLD, ccow:THRESHOLD:ORDER:REGION_KB, defer";

/// Values of vm.cow_threshold_pct.
const THRESHOLDS: RangeInclusive<u32> = 0..=100;

/// The default region, which one fault copies whole.
const REGION_KB: u32 = 2048;

/// Values of vm.cow_region_kb; powers of two.
const REGIONS_KB: RangeInclusive<u32> = 32..=8192;

/// Values of vm.cow_precopy_order, except 0.
const ORDERS: RangeInclusive<u32> = 2..=8;

/// What is copied at a copy-on-write fault, and when fork's page tables are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// `stock`: whatever the kernel is set to.
    Stock,
    /// `off`: only the written page.
    Off,
    /// `next`, `next:16`: also so many following pages.
    Next(u32),
    /// `next:512:4`: the same, into folios of up to 2^order pages.
    NextFolios(u32, u32),
    /// `ccow`: of the 128 KiB around it, what was written between the last two forks, by the kernel's
    /// defaults.
    Coverage,
    /// `ccow:80`: the whole region, if so much of it (in percent) was written between the last two
    /// forks; `ccow:0` for every region. `ccow:80:4` into folios of up to 2^order pages; `ccow:80:0:32`
    /// with the region's size in KiB.
    CoverageOf(u32, u32, u32),
    /// `defer`: only the written page; page tables are copied after fork, when needed.
    Defer,
}

impl Policy {
    /// The default size of a CCoW region, in KiB.
    pub const REGION_KB: u32 = REGION_KB;

    /// Forks after which the policy knows a process.
    pub fn forks_to_learn(self) -> u64 {
        match self {
            Policy::Stock
            | Policy::Off
            | Policy::Next(_)
            | Policy::NextFolios(..)
            | Policy::Defer => 0,
            // Pages are watched from the first fork on.
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

/// A number, and an optional order of folios.
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
