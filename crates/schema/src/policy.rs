// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copy-on-write policies by name.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::Value;

/// Values of vm.cow_precopy_pages: at most one page-table page.
const DEPTHS: RangeInclusive<u32> = 1..=512;

/// For messages.
const NAMES: &str = "stock (the kernel as it is), off, next, next:PAGES, ccow, ccow:THRESHOLD, \
                     ccow:THRESHOLD:REGION_KB, defer";

/// Values of vm.cow_threshold_pct.
const THRESHOLDS: RangeInclusive<u32> = 0..=100;

/// The default region.
const REGION_KB: u32 = 2048;

/// Values of vm.cow_region_kb; powers of two.
const REGIONS_KB: RangeInclusive<u32> = 32..=8192;

/// What is copied at a copy-on-write fault, and when fork's page tables are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// `stock`: whatever the kernel is set to.
    Stock,
    /// `off`: only the written page.
    Off,
    /// `next`, `next:16`: also so many following pages.
    Next(u32),
    /// `ccow`: as `ccow:80`, but 128 KiB at a time, and less if too much was copied in vain.
    Coverage,
    /// `ccow:80`: the whole region, if so much of it (in percent) was written between the last two
    /// forks; `ccow:0` for every region. `ccow:80:32` with the region's size in KiB.
    CoverageOf(u32, u32),
    /// `defer`: only the written page; page tables are copied after fork, when needed.
    Defer,
}

impl Policy {
    /// The default size of a CCoW region, in KiB.
    pub const REGION_KB: u32 = REGION_KB;

    /// Forks after which the policy knows a process.
    pub fn forks_to_learn(self) -> u64 {
        match self {
            Policy::Stock | Policy::Off | Policy::Next(_) | Policy::Defer => 0,
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
            Policy::Coverage => f.write_str("ccow"),
            Policy::Defer => f.write_str("defer"),
            Policy::CoverageOf(threshold, REGION_KB) => write!(f, "ccow:{threshold}"),
            Policy::CoverageOf(threshold, region) => write!(f, "ccow:{threshold}:{region}"),
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
            Some(("next", pages)) => {
                Ok(Policy::Next(number(text, pages, "pages of next:PAGES", DEPTHS)?))
            }
            Some(("ccow", rest)) => {
                let what = "threshold of ccow:THRESHOLD (percent)";
                let (threshold, region) = match rest.split_once(':') {
                    Some((threshold, region)) => (threshold, region_kb(text, region)?),
                    None => (rest, REGION_KB),
                };
                Ok(Policy::CoverageOf(number(text, threshold, what, THRESHOLDS)?, region))
            }
            _ => Err(format!("unknown policy '{text}': choose one of {NAMES}")),
        }
    }
}

fn number(text: &str, value: &str, what: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    value.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        format!("'{text}': the {what} must be in {}..{}", range.start(), range.end())
    })
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
        for policy in [Policy::Stock, Policy::Off, Policy::Next(1), Policy::Next(512)] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let coverage = [(0, 2048), (80, 2048), (100, 2048), (80, 32)]
            .map(|(threshold, region)| Policy::CoverageOf(threshold, region));
        for policy in coverage.into_iter().chain([Policy::Coverage, Policy::Defer]) {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("next:1".parse(), Ok(Policy::Next(1)));
        assert_eq!("ccow:80:2048".parse(), Ok(Policy::CoverageOf(80, REGION_KB)));
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
            "ccow:",
            "ccow:101",
            "ccow:-1",
            "ccow:80:1",
            "ccow:80:48",
            "ccow:80:16384",
            "ccow:80:64:1",
            "ccows",
        ] {
            assert!(wrong.parse::<Policy>().is_err(), "{wrong}");
        }
        assert!("next:600".parse::<Policy>().unwrap_err().contains("1..512"));
        assert!("ccow:101".parse::<Policy>().unwrap_err().contains("0..100"));
    }
}
