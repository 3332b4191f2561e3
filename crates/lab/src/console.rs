// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest's log: what in it says that the kernel is broken.

use serde::Serialize;

/// A kind of complaint, and the texts by which a line is one.
const KINDS: &[(&str, &[&str])] = &[
    ("KASAN", &["BUG: KASAN:", "BUG: KFENCE:", "BUG: KMSAN:"]),
    ("KCSAN", &["BUG: KCSAN:"]),
    ("UBSAN", &["UBSAN:"]),
    ("sleeping", &["BUG: sleeping function", "BUG: scheduling while atomic"]),
    ("soft lockup", &["BUG: soft lockup", "watchdog: BUG:", "hard LOCKUP"]),
    ("bad page", &["BUG: Bad page", "Bad page map"]),
    (
        "bad swap entry",
        &[
            "Bad swap file entry",
            "Unused swap file entry",
            "Bad swap offset entry",
            "Unused swap offset entry",
        ],
    ),
    ("bad rss-counter", &["BUG: Bad rss-counter"]),
    ("page table", &["BUG: non-zero pgtables_bytes", "bad pmd ", "bad pte ", "bad pgd "]),
    (
        "Oops",
        &[
            "Oops:",
            "general protection fault",
            "unable to handle ",
            "kernel NULL pointer",
            "divide error:",
        ],
    ),
    ("BUG", &["kernel BUG at", "BUG:"]),
    (
        "lockdep",
        &[
            "possible circular locking",
            "possible recursive locking",
            "inconsistent lock",
            "suspicious RCU usage",
            "INFO: trying to register non-static key",
            "lock held when returning",
            "possible deadlock",
            "Invalid wait context",
            "bad unlock balance",
            "held lock freed",
            "possible irq lock inversion",
            "irq-safe -> ",
        ],
    ),
    ("hung task", &["blocked for more than", "INFO: task "]),
    ("RCU stall", &["rcu_sched self-detected stall", "rcu: INFO:", "rcu_preempt detected stalls"]),
    ("WARNING", &["WARNING:"]),
    ("leak", &["kmemleak:", "Objects remaining in", "memory leak"]),
    ("refcount", &["refcount_t:"]),
    ("list corruption", &["list_add corruption", "list_del corruption"]),
    ("panic", &["Kernel panic"]),
];

/// What holds one of those texts and is harmless.
const HARMLESS: &[&str] = &[
    // The guest's clock under emulation, when the host is busy.
    "clocksource: timekeeping watchdog",
    "kmemleak: Kernel memory leak detector initialized",
    "kmemleak: Automatic memory scanning thread started",
];

/// One line of a log that says that something is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Complaint {
    /// What it is: `WARNING`, `KASAN`, `lockdep`, ...
    pub kind: &'static str,
    /// The line's number, from 1.
    pub line: usize,
    pub text: String,
}

/// Every complaint in a guest's log, in its order.
pub fn complaints(log: &str) -> Vec<Complaint> {
    let judge = |(index, text): (usize, &str)| {
        let text = text.trim_end();
        if HARMLESS.iter().any(|harmless| text.contains(harmless)) {
            return None;
        }
        let (kind, _) = KINDS.iter().find(|(_, marks)| marks.iter().any(|m| says(text, m)))?;
        Some(Complaint { kind, line: index + 1, text: text.to_owned() })
    };
    log.lines().enumerate().filter_map(judge).collect()
}

/// Whether `mark` is in `text`, and not as the end of another word: DEBUG: is no BUG:.
fn says(text: &str, mark: &str) -> bool {
    let mut places = text.match_indices(mark);
    places.any(|(at, _)| !text[..at].ends_with(|before: char| before.is_ascii_alphanumeric()))
}

/// The last `count` lines of a log.
pub fn tail(log: &str, count: usize) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_in_lines_of_real_kernels() {
        for (kind, line) in [
            ("WARNING", "[    3.1] WARNING: CPU: 1 PID: 77 at mm/memory.c:3441 do_wp_page+0x1/0x2"),
            ("KASAN", "BUG: KASAN: slab-use-after-free in cow_copy+0x11/0x20"),
            ("bad rss-counter", "BUG: Bad rss-counter state mm:0000000012 type:MM_ANONPAGES val:1"),
            ("bad page", "BUG: Bad page state in process cow  pfn:1b2c3"),
            ("bad page", "BUG: Bad page map in process cow  pte:8000000 pmd:123"),
            ("bad swap entry", "_swap_info_get: Bad swap file entry 3fffffffffffffff"),
            ("bad swap entry", "_swap_info_get: Unused swap offset entry 00000100"),
            ("Oops", "Oops: Oops: 0000 [#1] PREEMPT SMP KASAN"),
            ("Oops", "BUG: unable to handle page fault for address: ffffffffffffffd8"),
            ("Oops", "BUG: kernel NULL pointer dereference, address: 0000000000000008"),
            ("BUG", "kernel BUG at mm/rmap.c:1200!"),
            ("lockdep", "WARNING: possible circular locking dependency detected"),
            ("lockdep", "WARNING: suspicious RCU usage"),
            ("hung task", "INFO: task cow:88 blocked for more than 120 seconds."),
            ("soft lockup", "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [cow:88]"),
            ("sleeping", "BUG: sleeping function called from invalid context at mm/x.c:1"),
            ("RCU stall", "rcu: INFO: rcu_preempt self-detected stall on CPU"),
            ("refcount", "refcount_t: underflow; use-after-free."),
            ("panic", "Kernel panic - not syncing: Attempted to kill init!"),
        ] {
            let found = complaints(&format!("a boot\n{line}\r\nmore\n"));
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!((found[0].kind, found[0].line), (kind, 2), "{line}");
            assert_eq!(found[0].text, line);
        }
    }

    #[test]
    fn an_ordinary_boot_is_clean() {
        let log = "Linux version 6.12.117\namd_pstate: the _CPC object is not present\n\
                   clocksource: timekeeping watchdog on CPU1: hpet wd-wd read-back delay\n\
                   DEBUG: a line\nlockdep is turned on\n9pnet_virtio: no channels available\n";
        assert_eq!(complaints(log), []);
    }

    #[test]
    fn the_tail_is_the_end() {
        assert_eq!(tail("a\r\n\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a\n", 9), "a");
    }
}
