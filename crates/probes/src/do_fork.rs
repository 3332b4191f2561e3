// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and results of probes/do_fork.c.

use anyhow::Result;
use cowlab_store::Params;

use crate::program::Program;
use crate::runner::{Outside, Runner};
use crate::settings::{Method, Reap, Writer};

/// One invocation of do_fork.
#[derive(Debug, Clone, PartialEq)]
pub struct DoFork {
    /// How many processes to create.
    pub forks: u64,
    /// Size of the heap, rounded up to pages.
    pub heap_bytes: u64,
    /// Share of the heap that is written, one byte a page, from its start: 0..=1.
    pub write_fraction: f64,
    /// Whether the written pages lie evenly over the heap instead of at its start.
    pub spread: bool,
    /// How processes are created.
    pub method: Method,
    /// Who writes.
    pub writer: Writer,
    /// How children are waited for.
    pub reap: Reap,
    /// Size of the pages that the heap is made of.
    pub page_size_bytes: u64,
    /// Other threads of the forking process, running all the time.
    pub threads: u32,
    /// Whether the heap's pages were replaced in no order, as copies do to a program that forks.
    pub scattered: bool,
    /// Over how much memory, where that is more than the heap.
    pub scatter_bytes: u64,
    /// Mappings beside the heap with a written page each: data segments, say.
    pub vmas_anon: u64,
    /// Mappings beside the heap of a file, without a page of their own: program text, say.
    pub vmas: u64,
    /// Microseconds of other work before each fork, which displaces what caches hold of it.
    pub work_us: u64,
    /// Whether the heap is written before the first fork.
    pub populated: bool,
    /// Whether one more fork, of which nothing is recorded, comes first.
    pub settled: bool,
    /// Whether the forking process and its children share one CPU and the threads have others.
    pub pinned: bool,
}

impl DoFork {
    /// The document's defaults: fork, the child writes, base pages, reaped one by one.
    pub fn new(forks: u64, heap_bytes: u64, write_fraction: f64, page_size_bytes: u64) -> DoFork {
        DoFork {
            forks,
            heap_bytes,
            write_fraction,
            spread: false,
            method: Method::Fork,
            writer: Writer::Child,
            reap: Reap::Each,
            page_size_bytes,
            threads: 0,
            scattered: false,
            scatter_bytes: 0,
            vmas_anon: 0,
            vmas: 0,
            work_us: 0,
            populated: true,
            settled: false,
            pinned: true,
        }
    }

    /// Refuse what makes no sense, naming the flag that would.
    pub fn check(&self) -> Result<(), String> {
        let copies = self.method == Method::Fork;
        if !(0.0..=1.0).contains(&self.write_fraction) {
            return Err(format!("--write-fraction must be in 0..1, not {}", self.write_fraction));
        }
        if matches!(self.method, Method::ForkExec | Method::VforkExec) {
            return Err(format!("--method {} belongs to fork-table", self.method));
        }
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
            return Err("a heap is scattered by writing all of it: --scatter or --untouched".into());
        }
        if self.writer != Writer::Child && self.reap != Reap::Each {
            return Err(format!("--writer {} needs --reap each", self.writer));
        }
        Ok(())
    }

    /// The parameters that its samples carry.
    pub fn params(&self) -> Params {
        let mut params: Params = [
            ("forks", self.forks.to_string()),
            ("heap_bytes", self.heap_bytes.to_string()),
            ("write_fraction", self.write_fraction.to_string()),
            ("method", self.method.to_string()),
            ("writer", self.writer.to_string()),
            ("reap", self.reap.to_string()),
            ("page_size_bytes", self.page_size_bytes.to_string()),
            ("threads", self.threads.to_string()),
            ("populated", self.populated.to_string()),
            ("settled", self.settled.to_string()),
            ("pinned", self.pinned.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        // Only where it is so: earlier runs have no such parameter, and stay comparable.
        if self.spread {
            params.insert("spread".to_owned(), true.to_string());
        }
        if self.scattered {
            params.insert("scattered".to_owned(), true.to_string());
            if self.scatter_bytes > 0 {
                params.insert("scatter_bytes".to_owned(), self.scatter_bytes.to_string());
            }
        }
        for (name, value) in self.beside_the_heap() {
            if value > 0 {
                params.insert(name.to_owned(), value.to_string());
            }
        }
        params
    }

    fn beside_the_heap(&self) -> [(&'static str, u64); 3] {
        [("vmas_anon", self.vmas_anon), ("vmas", self.vmas), ("work_us", self.work_us)]
    }

    fn arguments(&self, runner: &Runner) -> Result<Vec<String>> {
        let mut arguments = vec![
            format!("--method={}", self.method),
            format!("--writer={}", self.writer),
            format!("--reap={}", self.reap),
            format!("--page-size-bytes={}", self.page_size_bytes),
            format!("--threads={}", self.threads),
            format!("--vmas-anon={}", self.vmas_anon),
            format!("--vmas={}", self.vmas),
            format!("--work-us={}", self.work_us),
            format!("--spawn={}", runner.tiny_path()?),
        ];
        arguments.extend(runner.warm_flag());
        if !self.populated {
            arguments.push("--untouched".to_owned());
        }
        if self.spread {
            arguments.push("--spread".to_owned());
        }
        if self.scattered {
            arguments.push("--scatter".to_owned());
            arguments.push(format!("--scatter-bytes={}", self.scatter_bytes));
        }
        if self.settled {
            arguments.push("--settle".to_owned());
        }
        if self.pinned {
            arguments.push("--pin".to_owned());
        }
        arguments.extend([
            self.forks.to_string(),
            self.heap_bytes.to_string(),
            self.write_fraction.to_string(),
        ]);
        Ok(arguments)
    }

    /// Run it.
    pub fn run(&self, runner: &Runner) -> Result<DoForkResult> {
        let outcome = runner.run(Program::DoFork, &self.arguments(runner)?)?;
        let rows = &outcome.rows;
        let cpu = |of: &str| -> Result<CpuTime> {
            Ok(CpuTime {
                user_ns: rows.value(&format!("{of}_user_ns"))?,
                sys_ns: rows.value(&format!("{of}_sys_ns"))?,
                minor_faults: rows.value(&format!("{of}_minor_faults"))?,
            })
        };
        Ok(DoForkResult {
            start_unix_ns: outcome.start_unix_ns,
            pid: outcome.pid,
            outside: outcome.outside,
            loop_ns: rows.value("loop_ns")?,
            program: cpu("self")?,
            children: cpu("children")?,
            populate_faults: rows.value("populate_faults")?,
            fork_ns: rows.values("fork_ns"),
            child_start_ns: rows.values("child_start_ns"),
            write_ns: rows.values("write_ns"),
            cycle_ns: rows.values("cycle_ns"),
        })
    }
}

/// What getrusage(2) charged over the loop of forks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuTime {
    /// Time in user space.
    pub user_ns: u64,
    /// Time in the kernel.
    pub sys_ns: u64,
    /// Faults that needed no I/O.
    pub minor_faults: u64,
}

/// What do_fork measured. Per-fork values are in the order of the forks.
#[derive(Debug, Clone, PartialEq)]
pub struct DoForkResult {
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    /// Its process id, for what others recorded about it.
    pub pid: u32,
    /// Spawn to exit.
    pub outside: Outside,
    /// From the first fork to the end of the last one's work.
    pub loop_ns: u64,
    /// CPU time of the program itself in the loop, its threads' included.
    pub program: CpuTime,
    /// CPU time of the children that it waited for.
    pub children: CpuTime,
    /// Faults that populating the heap took: pages divided by it is the pages a fault got.
    pub populate_faults: u64,
    /// The call, until it returned in the parent.
    pub fork_ns: Vec<u64>,
    /// From the call until the child's first instruction.
    pub child_start_ns: Vec<u64>,
    /// The writes.
    pub write_ns: Vec<u64>,
    /// From the call until the child was reaped and the writes were over.
    pub cycle_ns: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_without_sense_are_refused() {
        let base = DoFork::new(1, 4096, 0.5, 4096);
        assert_eq!(base.check(), Ok(()));
        let refused = [
            (DoFork { write_fraction: 1.1, ..base.clone() }, "--write-fraction"),
            (DoFork { write_fraction: f64::NAN, ..base.clone() }, "--write-fraction"),
            (DoFork { method: Method::Vfork, ..base.clone() }, "--write-fraction 0"),
            (DoFork { method: Method::PosixSpawn, ..base.clone() }, "--write-fraction 0"),
            (DoFork { method: Method::ForkExec, ..base.clone() }, "fork-table"),
            (
                DoFork {
                    method: Method::Vfork,
                    write_fraction: 0.0,
                    writer: Writer::Parent,
                    ..base.clone()
                },
                "--method fork",
            ),
            (DoFork { writer: Writer::Parent, reap: Reap::Never, ..base.clone() }, "--reap each"),
        ];
        for (settings, flag) in refused {
            let error = settings.check().unwrap_err();
            assert!(error.contains(flag), "{error}");
        }
    }
}
