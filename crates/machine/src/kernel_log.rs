// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel's log says of memory that it did not promise.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Records that are looked at: more than the log of a usual kernel holds.
const MOST_RECORDS: usize = 50_000;

/// The sizes (bytes) for which the kernel refused `pid` the promise of memory (vm.overcommit_memory), oldest first; the
/// log has some of them only. `None` where it may not be read.
pub fn unpromised(pid: i32) -> Option<Vec<u64>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut log = OpenOptions::new().read(true).custom_flags(flags).open("/dev/kmsg").ok()?;
    let (mut found, mut record) = (Vec::new(), [0; 8192]);
    for _ in 0..MOST_RECORDS {
        match log.read(&mut record) {
            Ok(length) => found.extend(size_in(&String::from_utf8_lossy(&record[..length]), pid)),
            // Overwritten meanwhile: the next read goes on behind that.
            Err(error) if error.raw_os_error() == Some(Errno::PIPE.raw_os_error()) => {}
            Err(_) => break,
        }
    }
    Some(found)
}

/// `__vm_enough_memory` of mm/util.c: `… pid: 7, comm: NAME, bytes: 4096 not enough memory for the allocation`; a
/// program chooses its NAME.
fn size_in(record: &str, pid: i32) -> Option<u64> {
    let text = record.split_once(';')?.1;
    let after = text.strip_prefix("__vm_enough_memory: pid: ")?;
    let (of, rest) = after.split_once(',')?;
    let (_, size) = rest.rsplit_once("bytes: ")?;
    (of.parse() == Ok(pid)).then(|| size.split(' ').next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_found_whatever_the_program_is_called() {
        let line = |name: &str| {
            format!(
                "4,1,2,-;__vm_enough_memory: pid: 7, comm: {name}, bytes: 4096 not enough memory for \
                 the allocation\n"
            )
        };
        for name in ["server", "bytes: 9 not", "a, bytes: 1", ""] {
            assert_eq!((size_in(&line(name), 7), size_in(&line(name), 8)), (Some(4096), None));
        }
        for other in
            ["", "4,1,2,-;", "4,1,2,-;x: pid: 7, bytes: 4096", "__vm_enough_memory: pid: 7,"]
        {
            assert_eq!(size_in(other, 7), None);
        }
    }
}
