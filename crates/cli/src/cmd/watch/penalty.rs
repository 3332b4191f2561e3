// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a copy costs here, from the machine profile, if there is one.

use anyhow::Result;
use cowlab_model::profile::MachineProfile;
use cowlab_report::fmt::quantity;

use crate::args::ProfileArgs;
use crate::profile_file::ProfileFile;

/// The machine's prices.
#[derive(Debug, Clone, PartialEq)]
pub struct Penalty {
    /// A copy by a process of one running thread.
    pub copy_ns: f64,
    /// More, where another thread of the process runs on another CPU; `None` if not measured.
    pub flush_ns: Option<f64>,
}

impl Penalty {
    /// Of the profile that was asked for, or the newest one; `None` where there is none.
    pub fn find(args: &ProfileArgs) -> Result<Option<Penalty>> {
        let file = ProfileFile::find(args)?;
        Ok(file.and_then(|(_, file)| Penalty::of(&file.profile)))
    }

    fn of(profile: &MachineProfile) -> Option<Penalty> {
        let copy_ns = profile.cost("cow_fault_ns")?;
        Some(Penalty { copy_ns, flush_ns: profile.cost("remote_flush_ns") })
    }

    /// One sentence, for a process of so many threads.
    pub fn sentence(&self, threads: Option<u64>) -> String {
        let copy = quantity(self.copy_ns, "ns");
        match (self.flush_ns, threads) {
            (Some(flush), Some(2..)) => format!(
                "a copy costs {copy}, and {} more while another thread runs",
                quantity(flush, "ns")
            ),
            _ => format!("a copy costs {copy}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_pay_for_the_flush() {
        let penalty = Penalty { copy_ns: 2130.0, flush_ns: Some(9000.0) };
        assert_eq!(penalty.sentence(Some(1)), "a copy costs 2.13 µs");
        assert!(penalty.sentence(Some(4)).contains("9.00 µs more"));
        let unknown = Penalty { flush_ns: None, ..penalty };
        assert_eq!(unknown.sentence(Some(4)), "a copy costs 2.13 µs");
    }
}
