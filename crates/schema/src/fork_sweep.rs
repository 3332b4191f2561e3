// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fork-sweep`: Smith and Maguire's program (1988) over its parameters.

use crate::bench::bench;
use crate::{Method, Policy, Reap, Writer};

/// The ways to make a process that it knows.
pub const METHODS: [Method; 4] =
    [Method::Fork, Method::Vfork, Method::CloneVmVfork, Method::PosixSpawn];

bench! {
    /// Forks of a heap of which a fraction is written: Smith and Maguire (1988)
    "fork-sweep";

    /// One invocation of do_fork.
    cell DoFork, check {
        /// Forks of one program run
        forks: u64 = 100, flag, within(1.0, 1e6), positional;
        /// Size of the heap
        heap_bytes: u64 = 16 << 20, flag, size, positional;
        /// Share of the heap that is written, one byte a page
        write_fraction: f64 = 0.5, flag, within(0.0, 1.0), positional;
        /// How processes are made
        method: Method = Method::Fork, flag, only(&METHODS);
        /// Who writes
        writer: Writer = Writer::Child, flag,
            only(&[Writer::Child, Writer::Parent, Writer::ParentReuse]);
        /// How children are waited for
        reap: Reap = Reap::Each, set;
        /// Size of the heap's pages: the base page, THP or an mTHP size
        page_size_bytes: u64 = 4096, flag, size, by_machine("the base page");
        /// Other threads of the forking process, running all the time
        threads: u32 = 0, flag, within(0.0, 64.0);
        /// Write the heap before the first fork; without, it is as malloc leaves it
        populated: bool = true, set;
        /// Make one fork before, of which nothing is recorded
        settled: bool = false, set;
        /// Keep parent and children on one CPU and the threads on others
        pinned: bool = true, set;
        /// Spread the written pages evenly over the heap instead of writing its start
        spread: bool = false, set, rare;
        /// Replace the heap's pages in no order before, as the copies of earlier forks do
        scattered: bool = false, set, rare;
        /// Over how much memory they are scattered, where that is more than the heap
        scatter_bytes: u64 = 0, set, size, rare;
        /// Mappings (VMAs) beside the heap with a written page each: data segments, say
        vmas_anon: u64 = 0, set, within(0.0, 60e3), rare;
        /// Mappings of a file beside the heap, without a page of their own: program text, say
        vmas: u64 = 0, set, within(0.0, 60e3), rare;
        /// Microseconds of other work before each fork, through twice as much memory as the largest
        /// cache holds
        work_us: u64 = 0, set, within(0.0, 10e6), rare;
        /// What is copied at a fault, and when fork's page tables are
        policy: Policy = Policy::Stock, set, apart, rare;
    }

    metrics {
        /// The loop of forks: from the first to the end of the last one's work, with the work of
        /// `work_us` between them
        real_ns: ns;
        /// User time over the loop, of the program and its reaped children
        user_ns: ns;
        /// System time over the loop, of the same
        sys_ns: ns;
        /// From spawning the program to its exit, as a shell's `time` sees it
        outside_real_ns: ns;
        /// User time of that
        outside_user_ns: ns;
        /// System time of that
        outside_sys_ns: ns;
        /// Minor faults over the loop, of the program and its reaped children
        minor_faults: faults;
        /// Base pages that one fault populated, before the forks
        populate_pages_per_fault: pages_per_fault;
        /// The call, until it returned in the parent: how long that stands still
        fork_ns: ns;
        /// From the call until the child's first instruction
        child_start_ns: ns;
        /// The same, as the instructions that an emulated CPU executed
        child_start_instructions: instructions;
        /// The writes after a fork
        write_ns: ns;
        /// From the call until the child was reaped and the writes were over
        cycle_ns: ns;
        /// The same, as instructions
        cycle_instructions: instructions;
    }
}

impl DoFork {
    /// The document's defaults: fork, the child writes, base pages, reaped one by one.
    pub fn new(forks: u64, heap_bytes: u64, write_fraction: f64, page_size_bytes: u64) -> DoFork {
        DoFork { forks, heap_bytes, write_fraction, page_size_bytes, ..DoFork::default() }
    }

    /// Refuse what makes no sense, naming the flag that would.
    pub fn check(&self) -> Result<(), String> {
        let copies = self.method == Method::Fork;
        if !copies && self.write_fraction > 0.0 {
            return Err(format!(
                "--method {} copies nothing: the child would write the parent's own memory or \
                 has none of it; use --write-fraction 0",
                self.method
            ));
        }
        if !copies && self.writer != Writer::Child {
            return Err(format!(
                "--method {} suspends the parent or shares nothing with it: --writer {} needs \
                 --method fork",
                self.method, self.writer
            ));
        }
        if self.scattered && !self.populated {
            return Err("a heap is scattered by writing all of it: --set scattered=true needs \
                        populated=true"
                .into());
        }
        if self.scatter_bytes > 0 && !self.scattered {
            return Err("--set scatter_bytes needs scattered=true".into());
        }
        if self.writer != Writer::Child && self.reap != Reap::Each {
            return Err(format!("--writer {} needs --set reap=each", self.writer));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;

    #[test]
    fn combinations_without_sense_are_refused() {
        let base = DoFork::new(1, 4096, 0.5, 4096);
        assert_eq!(base.check(), Ok(()));
        let refused = [
            (DoFork { method: Method::Vfork, ..base.clone() }, "--write-fraction 0"),
            (DoFork { method: Method::PosixSpawn, ..base.clone() }, "--write-fraction 0"),
            (
                DoFork {
                    method: Method::Vfork,
                    write_fraction: 0.0,
                    writer: Writer::Parent,
                    ..base.clone()
                },
                "--method fork",
            ),
            (DoFork { writer: Writer::Parent, reap: Reap::Never, ..base.clone() }, "reap=each"),
            (DoFork { scattered: true, populated: false, ..base.clone() }, "populated=true"),
            (DoFork { scatter_bytes: 1, ..base.clone() }, "scattered=true"),
        ];
        for (settings, flag) in refused {
            let error = settings.check().unwrap_err();
            assert!(error.contains(flag), "{error}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for (name, text) in [
            ("write_fraction", "1.1"),
            ("write_fraction", "NaN"),
            ("method", "fork+exec"),
            ("writer", "own"),
            ("forks", "0"),
            ("heap_bytes", "5apples"),
            ("spoon", "true"),
        ] {
            assert!(DoFork::default().set(name, text).is_err(), "{name}={text}");
        }
    }

    #[test]
    fn a_cell_comes_back_from_its_row() {
        let cell = DoFork {
            reap: Reap::AtMost(3),
            work_us: 5,
            scattered: true,
            writer: Writer::ParentReuse,
            ..DoFork::new(7, 12_345, 0.125, 2 << 20)
        };
        assert_eq!(DoFork::from_params(&cell.params()), Ok(cell));
        // A row of before `spread` and the like were there, with what was added to it.
        let plain = DoFork::new(1, 4096, 0.0, 4096);
        let mut row = plain.params();
        assert!(!row.contains_key("spread") && !row.contains_key("work_us"));
        row.insert("point".into(), "3".into());
        assert_eq!(DoFork::from_params(&row), Ok(plain));
        row.remove("page_size_bytes");
        assert!(DoFork::from_params(&row).unwrap_err().contains("page_size_bytes"));
    }

    #[test]
    fn a_probe_gets_every_argument_once() {
        let arguments = DoFork { pinned: false, ..DoFork::new(3, 1 << 20, 0.5, 4096) }.arguments();
        assert_eq!(arguments[arguments.len() - 3..], ["3", "1048576", "0.5"]);
        assert!(arguments.contains(&"--pinned=false".to_owned()), "{arguments:?}");
        // All but the policy, which is the kernel's.
        assert_eq!(arguments.len(), BENCH.params.len() - 1);
    }
}
