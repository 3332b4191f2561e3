// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free page reporting: a virtual machine's kernel tells its hypervisor which large blocks are free,
//! and that takes them back, holding up whoever runs (kernel: mm/page_reporting.c).

use crate::guard::{Guard, GuardError};
use crate::root::{ReadError, Root};

const ORDER: &str = "/sys/module/page_reporting/parameters/page_reporting_order";

/// Why it could not be held off.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// It has no such setting, or none that reaches beyond its largest block.
    #[error(
        "this kernel's page reporting cannot be held off ({ORDER}, beyond the largest \
         order): leave --set page_reporting=false out, or ask whoever runs the hypervisor to switch it off"
    )]
    Unsupported,
    /// Which orders there are is not known.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// The setting could not be changed.
    #[error(transparent)]
    Guard(GuardError),
}

/// Has no free block reported for as long as the value lives; the caller has the user's consent
/// (`--set page_reporting=false`). After an error the setting is as it was.
pub fn hold(root: &Root) -> Result<Guard, HoldError> {
    let zones = root.read("proc/buddyinfo")?.unwrap_or_default();
    if !root.exists(ORDER) || zones.is_empty() {
        return Err(HoldError::Unsupported);
    }
    let beyond = orders(&zones).to_string();
    Guard::set(root, &[(ORDER, &beyond)]).map_err(|error| match error {
        GuardError::Io { source, .. } if source.kind() == std::io::ErrorKind::InvalidInput => {
            HoldError::Unsupported
        }
        other => HoldError::Guard(other),
    })
}

/// How many orders there are: of `Node 0, zone Normal 1 2 3`, three.
fn orders(zones: &str) -> usize {
    let numbers = |line: &str| {
        line.split_whitespace().rev().take_while(|word| word.parse::<u64>().is_ok()).count()
    };
    zones.lines().map(numbers).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_order_is_one_more_than_the_largest_and_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert!(matches!(hold(&root), Err(HoldError::Unsupported)));
        let order = root.path(ORDER);
        fs::create_dir_all(order.parent().unwrap()).unwrap();
        fs::create_dir_all(folder.path().join("proc")).unwrap();
        fs::write(&order, "9\n").unwrap();
        let zones =
            "Node 0, zone DMA 0 0 0 0 0 0 0 0 1 1 3\nNode 0, zone Normal 1 2 3 4 5 6 7 8 9 10 11\n";
        fs::write(root.path("proc/buddyinfo"), zones).unwrap();
        let guard = hold(&root).unwrap();
        assert_eq!(fs::read_to_string(&order).unwrap(), "11\n");
        drop(guard);
        assert_eq!(fs::read_to_string(&order).unwrap(), "9\n");
    }
}
