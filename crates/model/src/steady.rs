// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages of a program that forks again and again: the first write to one while a child lives splits it,
//! and it stays split until somebody joins its pages.

/// CPU time of joining a region, where none could be tried: 1.5 to 7 ms where a hypervisor took back free memory.
pub const COLLAPSE_NS: f64 = 5e5;
/// Share of a CPU that `tend` takes on average.
pub const TEND_SHARE: f64 = 0.05;
/// It sees the end of a child this late, and waits at least so long after each region.
const SEEN_AFTER_S: f64 = 0.05;
const SHORTEST_PAUSE_S: f64 = 2e-3;

/// Regions that khugepaged looks at in a second, of all processes (pages_to_scan 4096 each 10 s).
const KHUGEPAGED_PER_S: f64 = 0.8;
/// Forks after which what each splits is taken for the rest of the program's life.
const FORKS: i32 = 10;

/// How often a program forks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rhythm {
    /// From one fork to the next.
    pub between_s: f64,
    /// How long a child lives: nothing is joined meanwhile.
    pub child_s: f64,
}

impl Rhythm {
    /// How long `tend` needs to join so many regions.
    fn work_s(regions: f64, collapse_ns: f64) -> f64 {
        let one_s = collapse_ns / 1e9;
        SEEN_AFTER_S + regions * (one_s / TEND_SHARE).max(one_s + SHORTEST_PAUSE_S)
    }

    /// Why `tend` cannot join before the next fork what the last one split; `None` if it can.
    pub fn cannot_keep_up(self, regions: u64, collapse_ns: f64) -> Option<String> {
        let (work_s, left_s) =
            (Self::work_s(regions as f64, collapse_ns), self.between_s - self.child_s);
        (work_s > left_s).then(|| {
            format!(
                "cannot keep up: {} of work between forks {} apart",
                seconds(work_s),
                seconds(self.between_s)
            )
        })
    }

    /// How many regions `tend` can join between two forks.
    pub fn most_regions(self, collapse_ns: f64) -> u64 {
        let each_s = Self::work_s(1.0, collapse_ns) - SEEN_AFTER_S;
        ((self.between_s - self.child_s - SEEN_AFTER_S) / each_s).max(0.0) as u64
    }
}

fn seconds(s: f64) -> String {
    cowlab_schema::fmt::quantity(s * 1e9, "ns")
}

/// Of so many regions in huge pages, those that are huge at a fork after many, where the writes after each
/// fork reach `written` of them and only khugepaged joins any: it comes to each region in turn. Which regions are
/// written is taken to change from fork to fork.
pub fn huge_left(regions: u64, written: u64, rhythm: Option<Rhythm>) -> u64 {
    let all = regions.max(1) as f64;
    let split = (written as f64 / all).min(1.0);
    let joined = rhythm
        .map_or(0.0, |of| ((of.between_s - of.child_s).max(0.0) * KHUGEPAGED_PER_S / all).min(1.0));
    let settled = joined / (1.0 - (1.0 - split) * (1.0 - joined)).max(f64::MIN_POSITIVE);
    let whole = (1.0 - split).powi(FORKS).max(settled.min(1.0));
    (regions as f64 * whole).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rhythm(between_s: f64) -> Rhythm {
        Rhythm { between_s, child_s: between_s / 10.0 }
    }

    #[test]
    fn a_pass_longer_than_the_time_between_forks_is_said_to_be() {
        let why = rhythm(0.2).cannot_keep_up(100, 5e5).unwrap();
        assert_eq!(why, "cannot keep up: 1.05 s of work between forks 200 ms apart");
        assert_eq!(rhythm(4.0).cannot_keep_up(100, 5e5), None);
        assert_eq!(rhythm(0.2).cannot_keep_up(5, 5e5), None);
        // Dearer ones.
        assert!(rhythm(4.0).cannot_keep_up(100, 5e6).is_some());
        assert_eq!((rhythm(0.2).most_regions(5e5), rhythm(0.05).most_regions(5e5)), (12, 0));
    }

    #[test]
    fn what_nobody_joins_stays_split() {
        assert_eq!(huge_left(100, 0, None), 100);
        assert_eq!(huge_left(100, 100, None), 0);
        assert_eq!(huge_left(100, 2, None), 82);
        // khugepaged comes to all of 100 in 125 s.
        assert_eq!(huge_left(100, 100, Some(rhythm(5.0))), 4);
        assert_eq!(huge_left(100, 100, Some(rhythm(1000.0))), 100);
    }
}
