// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rights that are kept; everything else is given up before the first target is touched.

use cowlab_machine::limits::{CAP_DAC_READ_SEARCH, CAP_SYS_NICE, CAP_SYS_PTRACE};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// To ask for a collapse and to be real-time for a moment; to look at memory that is another
/// user's; to open its files in /proc.
const KEPT: [(u32, &str); 3] = [
    (CAP_SYS_NICE, "CAP_SYS_NICE"),
    (CAP_SYS_PTRACE, "CAP_SYS_PTRACE"),
    (CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
];

/// The names of what is kept, for the service unit.
pub fn names() -> Vec<&'static str> {
    KEPT.iter().map(|(_, name)| *name).collect()
}

/// Give up all other capabilities of this thread and of those that it starts, and the way to new
/// ones.
pub fn drop_others() -> rustix::io::Result<()> {
    let kept = KEPT.iter().fold(CapabilitySet::empty(), |set, (bit, _)| {
        set | CapabilitySet::from_bits_retain(1 << bit)
    });
    set_no_new_privs(true)?;
    let now = capabilities(None)?;
    let sets = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
}

/// As many open files as may be: each target takes four to six, and the usual limit is 1024.
pub fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it fails, who finds no more files says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_gone_on_this_thread() {
        // On a thread of its own: other tests keep theirs.
        std::thread::spawn(|| {
            drop_others().unwrap();
            let now = capabilities(None).unwrap();
            assert!(!now.effective.contains(CapabilitySet::SYS_ADMIN));
            assert!(!now.permitted.contains(CapabilitySet::CHOWN));
            assert!(rustix::thread::no_new_privs().unwrap());
        })
        .join()
        .unwrap();
    }
}
