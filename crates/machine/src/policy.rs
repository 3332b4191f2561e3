// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel copies when a shared page is written: document 002's policies, and the patched
//! kernel's settings that choose among them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::Serialize;

use crate::facts::Facts;
use crate::root::Reader;

/// 0: copy only the page that was written; 1: its neighbours ahead as well.
pub(crate) const PRECOPY: &str = "proc/sys/vm/cow_precopy";
/// How many neighbours.
pub(crate) const PRECOPY_PAGES: &str = "proc/sys/vm/cow_precopy_pages";
/// The order of the folios that aligned runs of copies go into; 0: base pages.
pub(crate) const PRECOPY_ORDER: &str = "proc/sys/vm/cow_precopy_order";
/// 0: count; 1: take times as well.
pub(crate) const TIMES: &str = "proc/sys/vm/cow_stats";

/// The depths that vm.cow_precopy_pages takes: one page-table page is the most.
pub const DEPTHS: RangeInclusive<u32> = 1..=512;

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
        }
    }
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
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let depth = match text {
            "off" => return Ok(Policy::Off),
            "next" => "1",
            _ => text.strip_prefix("next:").ok_or_else(|| {
                format!(
                    "unknown policy '{text}': choose one of off, next, next:PAGES, next:PAGES:ORDER"
                )
            })?,
        };
        let (depth, order) = depth.split_once(':').unwrap_or((depth, "0"));
        let pages = depth.parse().ok().filter(|pages| DEPTHS.contains(pages)).ok_or_else(|| {
            let (least, most) = (DEPTHS.start(), DEPTHS.end());
            format!("'{text}': the pages of next:PAGES must be in {least}..{most}")
        })?;
        match order.parse() {
            Ok(0) => Ok(Policy::Next(pages)),
            Ok(order) if ORDERS.contains(&order) => Ok(Policy::NextFolios(pages, order)),
            _ => Err(format!(
                "'{text}': the order of next:PAGES:ORDER must be 0 or in {}..{}",
                ORDERS.start(),
                ORDERS.end()
            )),
        }
    }
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
        assert_eq!("next:16:0".parse(), Ok(Policy::Next(16)));
        assert_eq!("next:1".parse(), Ok(Policy::Next(1)));
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
        ] {
            assert!(wrong.parse::<Policy>().is_err(), "{wrong}");
        }
        assert!("next:600".parse::<Policy>().unwrap_err().contains("1..512"));
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
        let user = facts(Some(0), Some(1), 1000);
        assert_eq!(usable(&user, Policy::Off), Ok(()));
        assert!(usable(&user, Policy::Next(1)).unwrap_err().contains("needs root"));
        assert!(usable(&facts(Some(1), Some(1), 1000), Policy::Off).is_err());
    }
}
