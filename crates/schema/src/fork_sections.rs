// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fork-sections`: a fork by the kernel's sections.

use crate::Text;
use crate::bench::bench;
use crate::choice::choices;

choices! {
    /// The sections of Table I of Barkley and Schimmel (1988), as far as Linux has them. Their search of
    /// the process table and pid is `Identity`, their uballoc and setuctxt are `Task`, their procdup
    /// loop is `Areas` and `PageTables`.
    Section, "section", {
        /// the pid and its place in tables
        Identity = "identity",
        /// task_struct, kernel stack, registers, floating point state
        Task = "task",
        /// open files, working directory, signal handlers and pending signals
        Files = "files",
        /// the address space without its page tables: mm_struct and areas
        Areas = "areas",
        /// page tables, from the first page of them on
        PageTables = "page-tables",
        /// credentials, namespaces, control groups, the scheduler, and what nothing else accounts for
        Rest = "rest",
    }
}

bench! {
    /// Forks by the kernel's sections and functions, on a kernel built with --variant traced: Barkley
    /// and Schimmel (1988), Table I
    "fork-sections";

    /// One invocation of fork_small.
    cell ForkSections {
        /// Forks of each size; one more comes before them
        forks: u32 = 100, flag, within(1.0, 500.0), positional;
        /// Heap beyond the smallest possible process, which has one page each of text, data and stack
        size_bytes: u64 = 0, flag, size, positional, sweep("0,10MiB,100MiB,1GiB");
    }

    parts {
        /// The section of fork in the kernel
        section: Section;
        /// The kernel's function
        function: Text;
        /// Of `study fork-sections`: the kernel, by its variant or change
        kernel: Text;
        /// Of `study fork-sections`: the boot
        boot: u32;
    }

    metrics {
        /// One fork's time in the section, without the probes
        section_ns: ns;
        /// The same, as instructions
        section_instructions: instructions;
        /// One fork in the kernel, without the probes
        kernel_ns: ns;
        /// The same, as instructions
        kernel_instructions: instructions;
        /// The same as recorded
        kernel_raw_ns: ns;
        /// What the probes cost of it
        probes_ns: ns;
        /// The same, as instructions
        probes_instructions: instructions;
        /// Calls that were recorded in it
        probed_calls: calls;
        /// What recording one call costs its caller
        probe_outer_ns: ns;
        /// The parent's time in the call
        fork_ns: ns;
        /// The same, as instructions
        fork_instructions: instructions;
        /// The same while nobody records
        fork_unrecorded_ns: ns;
        /// The same, as instructions
        fork_unrecorded_instructions: instructions;
        /// Calls of the function in a fork
        calls_per_fork: calls_per_fork;
        /// The function's own time in a fork
        own_ns: ns;
        /// The same, as instructions
        own_instructions: instructions;
    }
}
