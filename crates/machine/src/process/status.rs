// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single lines of /proc/PID/status (proc_pid_status(5)), which may be absent.
//!
//! For frequent reads: procfs-core's `Status` takes 22 us to parse the whole file, as long as the
//! kernel takes to write it; five lines take 3 us.

/// The value of `key:`, without blanks and unit.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()
}

/// The file has sizes in KiB.
pub fn bytes(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_a_line_is_none() {
        // The kernel escapes only newlines in a name.
        let text = "Name:\tVmRSS: 1 kB\\nThreads: 9\nVmRSS:\t     100 kB\nThreads:\t3\n";
        assert_eq!(bytes(text, "VmRSS"), Some(102_400));
        assert_eq!(field(text, "Threads"), Some("3"));
        assert_eq!((field(text, "RssAnon"), bytes(text, "Name")), (None, None));
        assert_eq!(bytes("VmRSS: 99999999999999999999 kB\n", "VmRSS"), None);
    }
}
