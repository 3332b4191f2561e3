// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What may be attached here, and what is missing then.

use super::frame::Sees;
use super::pids::Wanted;
use crate::bpf::{BpfError, FaultMode, Observer, ObserverSettings, Scope};

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Count faults in the kernel, by process; costs every fault of a watched process something.
    pub counts: bool,
    pub without_bpf: bool,
    /// Wait for a name that nobody has yet.
    pub may_be_empty: bool,
}

/// The best that is allowed here, and what it does not see.
pub(super) fn attach(wanted: &Wanted, options: &Options) -> (Option<Observer>, Sees) {
    let mut sees = Sees::default();
    if options.without_bpf {
        sees.missing.push("forks as they happen, their stops, spawns and execs: --no-bpf".into());
        return (None, sees);
    }
    let settings = ObserverSettings {
        scope: if *wanted == Wanted::All { Scope::Everything } else { Scope::Chosen },
        faults: if options.counts { FaultMode::Count } else { FaultMode::None },
        processes: if *wanted == Wanted::All { 16384 } else { 4096 },
        ..ObserverSettings::default()
    };
    let attached = match Observer::attach(settings) {
        Err(error) if options.counts => {
            // Another architecture may have forks, and no event of faults.
            sees.missing.push(format!("faults by kind: {error}"));
            Observer::attach(ObserverSettings { faults: FaultMode::None, ..settings })
        }
        attached => attached,
    };
    match attached {
        Ok(observer) => {
            let learned = observer.learned();
            sees.events = learned.tgid_offset.is_some();
            sees.stops = learned.anchor.is_some();
            sees.counts = observer.settings().faults != FaultMode::None;
            if !sees.events {
                sees.missing
                    .push("children of forks: this kernel's tasks were not understood".into());
            }
            if !sees.stops {
                sees.missing.push(
                    "the stop of a fork: neither percpu_alloc_percpu nor mmap_lock_start_locking comes \
                     in a fork (Linux before 5.11, or built without them)"
                        .into(),
                );
            }
            (Some(observer), sees)
        }
        Err(error) => {
            sees.missing.push(format!(
                "forks as they happen, their stops, spawns and execs: {}",
                sentence(&error)
            ));
            (None, sees)
        }
    }
}

fn sentence(error: &BpfError) -> String {
    error.to_string().trim_end_matches('.').to_owned()
}
