// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel copies when a shared page is written: the policies of documents 002 and 003, and
//! the patched kernel's settings that choose among them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::Serialize;

use crate::facts::Facts;
use crate::root::Reader;

/// 0: copy only the page that was written; 1: its neighbours ahead as well; 2: its region.
pub(crate) const PRECOPY: &str = "proc/sys/vm/cow_precopy";
/// How many neighbours.
pub(crate) const PRECOPY_PAGES: &str = "proc/sys/vm/cow_precopy_pages";
/// The order of the folios that aligned runs of copies go into; 0: base pages.
pub(crate) const PRECOPY_ORDER: &str = "proc/sys/vm/cow_precopy_order";
/// From which coverage on a region is copied, in percent.
pub(crate) const THRESHOLD: &str = "proc/sys/vm/cow_threshold_pct";
/// How much of the copies a process may waste before its own threshold rises, in percent.
pub(crate) const WASTE: &str = "proc/sys/vm/cow_waste_pct";
/// The size of a region, in KiB.
pub(crate) const REGION: &str = "proc/sys/vm/cow_region_kb";
/// How much of a region one fault copies, in KiB.
pub(crate) const BATCH: &str = "proc/sys/vm/cow_batch_kb";
/// Which pages: 0, all of a region; else, anywhere, those written in as many of the last epochs.
pub(crate) const HISTORY: &str = "proc/sys/vm/cow_history";
/// From which of its forks on a process is watched.
pub(crate) const GATE: &str = "proc/sys/vm/cow_gate_forks";
/// From how much anonymous memory on, in KiB.
pub(crate) const GATE_KB: &str = "proc/sys/vm/cow_gate_kb";
/// Whether a worker copies ahead of the faults.
pub(crate) const WORKER: &str = "proc/sys/vm/cow_worker";
/// Every setting that a policy may change, and those that measurements do.
pub(crate) const ALL: [&str; 12] = [
    PRECOPY,
    PRECOPY_PAGES,
    PRECOPY_ORDER,
    THRESHOLD,
    WASTE,
    REGION,
    BATCH,
    HISTORY,
    GATE,
    GATE_KB,
    WORKER,
    TIMES,
];
/// 0: count; 1: take times as well.
pub(crate) const TIMES: &str = "proc/sys/vm/cow_stats";

/// The depths that vm.cow_precopy_pages takes: one page-table page is the most.
pub const DEPTHS: RangeInclusive<u32> = 1..=512;

/// For messages.
const NAMES: &str =
    "off, next, next:PAGES, next:PAGES:ORDER, ccow, ccow:THRESHOLD, ccow:THRESHOLD:ORDER:REGION_KB";

/// The thresholds that vm.cow_threshold_pct takes.
const THRESHOLDS: RangeInclusive<u32> = 0..=100;

/// What `ccow` sets: the kernel's own defaults, in the order of [`coverage_settings`].
const OWN: [u32; 9] = [80, 10, 2048, 128, 1, 1, 4096, 1, 0];
/// What document 003 has: no limit of waste, regions of 2 MiB that are copied whole, of any process.
const WASTE_ALLOWED_PCT: u32 = 100;
/// Its regions, which one fault copies whole where they are no larger.
const REGION_KB: u32 = 2048;

/// The sizes that vm.cow_region_kb takes; powers of two.
const REGIONS_KB: RangeInclusive<u32> = 32..=8192;

/// The orders that vm.cow_precopy_order takes, but for 0.
const ORDERS: RangeInclusive<u32> = 2..=8;

/// The settings of a kernel with document 002's policies; each is `None` on one without it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CowSettings {
    /// `vm.cow_precopy`.
    pub precopy: Option<u64>,
    /// `vm.cow_precopy_pages`.
    pub precopy_pages: Option<u64>,
    /// `vm.cow_precopy_order`.
    pub precopy_order: Option<u64>,
    /// `vm.cow_precopy_ramp`: pages that a process copies before a batch takes one more.
    pub precopy_ramp: Option<u64>,
    /// `vm.cow_threshold_pct`.
    pub threshold_pct: Option<u64>,
    /// `vm.cow_stats`.
    pub times: Option<u64>,
    /// Whether there is `/proc/cow_stats`.
    pub counts: bool,
    /// Whether there is `/proc/PID/cow_stats`.
    pub process_counts: bool,
}

pub(crate) fn probe(reader: &Reader<'_>) -> CowSettings {
    let setting = |file: &str| reader.root.exists(file).then(|| reader.number(file)).flatten();
    CowSettings {
        precopy: setting(PRECOPY),
        precopy_pages: setting(PRECOPY_PAGES),
        precopy_order: setting(PRECOPY_ORDER),
        precopy_ramp: setting("proc/sys/vm/cow_precopy_ramp"),
        threshold_pct: setting(THRESHOLD),
        times: setting(TIMES),
        counts: reader.root.exists("proc/cow_stats"),
        process_counts: reader.root.exists("proc/self/cow_stats"),
    }
}

/// What is copied at a copy-on-write fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// The page that was written: `off`.
    Off,
    /// So many pages that follow it as well: `next` for one, `next:16`.
    Next(u32),
    /// So many pages that follow it, into folios of up to 2^order pages: `next:512:4`.
    NextFolios(u32, u32),
    /// What was written between the last two forks, by a worker ahead of the faults, with the
    /// kernel's own settings: `ccow`.
    Coverage,
    /// The whole region, if so much of it (in percent) was written between the last two forks, into
    /// folios of up to 2^order pages, and the region's size in KiB: document 003's `ccow:80`,
    /// `ccow:0` for every region, `ccow:80:4`, and `ccow:80:0:32`.
    CoverageOf(u32, u32, u32),
}

impl Policy {
    /// The kernel's settings, as files below the root, with their values, in the order in which
    /// they are to be written.
    pub fn settings(self) -> Vec<(&'static str, u32)> {
        let next =
            |pages, order| vec![(PRECOPY_PAGES, pages), (PRECOPY_ORDER, order), (PRECOPY, 1)];
        match self {
            Policy::Off => vec![(PRECOPY, 0)],
            Policy::Next(pages) => next(pages, 0),
            Policy::NextFolios(pages, order) => next(pages, order),
            Policy::Coverage => coverage_settings(OWN),
            Policy::CoverageOf(threshold, order, region) => {
                // A fault copies what one page-table page maps at the most.
                let batch = region.min(REGION_KB);
                coverage_settings([threshold, WASTE_ALLOWED_PCT, region, batch, 0, 0, 0, 0, order])
            }
        }
    }

    /// The forks before which the policy knows nothing of a process.
    pub fn forks_to_learn(self) -> u64 {
        match self {
            Policy::Off | Policy::Next(_) | Policy::NextFolios(..) => 0,
            // From the first on its pages are watched.
            Policy::Coverage | Policy::CoverageOf(..) => 1,
        }
    }
}

fn coverage_settings(values: [u32; 9]) -> Vec<(&'static str, u32)> {
    let files = [THRESHOLD, WASTE, REGION, BATCH, HISTORY, GATE, GATE_KB, WORKER, PRECOPY_ORDER];
    files.into_iter().zip(values).chain([(PRECOPY, 2)]).collect()
}

/// What a kernel without the setting does.
pub(crate) fn built_in(setting: &str) -> Option<u32> {
    match setting {
        PRECOPY_PAGES => Some(1),
        PRECOPY_ORDER => Some(0),
        _ => None,
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Off => f.write_str("off"),
            Policy::Next(1) => f.write_str("next"),
            Policy::Next(pages) => write!(f, "next:{pages}"),
            Policy::NextFolios(pages, order) => write!(f, "next:{pages}:{order}"),
            Policy::Coverage => f.write_str("ccow"),
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
            None if text == "off" => Ok(Policy::Off),
            None if text == "next" => Ok(Policy::Next(1)),
            None if text == "ccow" => Ok(Policy::Coverage),
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

/// Whether this kernel, and this user, can have the policy.
///
/// # Errors
/// Why not, and what would help.
pub fn usable(facts: &Facts, policy: Policy) -> Result<(), String> {
    let settings = &facts.cow;
    let lacks = |name: &str| {
        format!(
            "--policy {policy}: this kernel has no {name}: boot the patched one with `cowlab kernel \
             boot`, or use --policy off"
        )
    };
    match policy {
        Policy::Off if settings.precopy.unwrap_or(0) == 0 => return Ok(()),
        Policy::Off => {}
        _ if settings.precopy.is_none() => return Err(lacks("vm.cow_precopy")),
        Policy::Coverage | Policy::CoverageOf(..) if settings.threshold_pct.is_none() => {
            return Err(lacks("vm.cow_threshold_pct"));
        }
        Policy::NextFolios(..) if settings.precopy_order.is_none() => {
            return Err(lacks("vm.cow_precopy_order"));
        }
        Policy::Next(2..) if settings.precopy_pages.is_none() => {
            return Err(lacks("vm.cow_precopy_pages"));
        }
        _ => {}
    }
    match &facts.credentials {
        Some(own) if own.euid == 0 => Ok(()),
        _ => Err(format!("--policy {policy}: changing vm.cow_precopy needs root")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Credentials;

    #[test]
    fn names_are_parsed_as_they_are_printed() {
        let folios = Policy::NextFolios(512, 4);
        for policy in [Policy::Off, Policy::Next(1), Policy::Next(16), Policy::Next(512), folios] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let coverage = [(0, 0, 2048), (80, 0, 2048), (100, 0, 2048), (80, 4, 2048), (80, 0, 32)]
            .map(|(threshold, order, region)| Policy::CoverageOf(threshold, order, region));
        for policy in coverage.into_iter().chain([Policy::Coverage]) {
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

    fn facts(precopy: Option<u64>, pages: Option<u64>, euid: u32) -> Facts {
        let credentials = Credentials { euid, ..Credentials::default() };
        let cow = CowSettings { precopy, precopy_pages: pages, ..CowSettings::default() };
        Facts { credentials: Some(credentials), cow, ..Facts::default() }
    }

    #[test]
    fn a_policy_needs_its_setting_and_root() {
        let stock = facts(None, None, 0);
        assert_eq!(usable(&stock, Policy::Off), Ok(()));
        let error = usable(&stock, Policy::Next(1)).unwrap_err();
        assert!(error.contains("no vm.cow_precopy:") && error.contains("kernel boot"), "{error}");
        let shallow = facts(Some(0), None, 0);
        assert_eq!(usable(&shallow, Policy::Next(1)), Ok(()));
        assert!(usable(&shallow, Policy::Next(2)).unwrap_err().contains("cow_precopy_pages"));
        let folios = usable(&facts(Some(0), Some(1), 0), Policy::NextFolios(16, 4));
        assert!(folios.unwrap_err().contains("cow_precopy_order"));
        let coverage = usable(&facts(Some(0), Some(1), 0), Policy::Coverage);
        assert!(coverage.unwrap_err().contains("cow_threshold_pct"));
        let user = facts(Some(0), Some(1), 1000);
        assert_eq!(usable(&user, Policy::Off), Ok(()));
        assert!(usable(&user, Policy::Next(1)).unwrap_err().contains("needs root"));
        assert!(usable(&facts(Some(1), Some(1), 1000), Policy::Off).is_err());
    }
}
