// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `--set` keys of verbs that are no bench, checked as a bench's parameters are.

/// Barkley and Schimmel (1988).
pub mod fork_sections {
    use crate::Text;
    use crate::bench::bench;

    bench! {
        /// What `study fork-sections` is told by `--set`
        "study fork-sections";

        /// A boot of each kernel.
        cell ForkSections {
            /// Forks of each size in a boot
            forks: u32 = 100, set, within(1.0, 500.0), unstored;
            /// Heaps beyond the smallest possible process
            size_bytes: u64 = 0, set, size, sweep("0,10MiB,100MiB,1GiB");
            /// Changes of kernel/study, by number or name, or `defer` (vm.cow_defer=2); `none`: Table I alone
            change: Text = Text(""), set, by_machine("all of them");
            /// Kernels that were built elsewhere: NAME=FILE, the unchanged one first
            image: Text = Text(""), set, by_machine("those that are built here");
            /// Count instructions as well
            instructions: bool = true, set, unstored;
        }
    }
}

/// The Copy-on-Write Optimization Study.
pub mod next_page {
    use crate::bench::bench;

    bench! {
        /// What `study next-page` is told by `--set`
        "study next-page";

        /// A policy of it.
        cell NextPage {
            /// Pages copied ahead of a write; the first depth is also measured at 16 MiB
            depths: u32 = 1, set, within(1.0, 512.0), sweep("1,2,4,8,16,32,64,128,256,512");
        }
    }
}

/// CCoW (2022).
pub mod ccow {
    use crate::bench::bench;

    bench! {
        /// What `study ccow` is told by `--set`
        "study ccow";

        /// How large its two benchmarks are made.
        cell Ccow {
            /// Exponents of Zipf's law by which the microbenchmark's blocks are chosen
            zipf_alpha: f64 = 1.0, set, within(0.0, 3.0), sweep("0,0.5,0.9,1,1.1,1.3");
            /// CCoW's thresholds; plain copy-on-write, CCoW-All and `ccow` are always measured
            thresholds_percent: u32 = 80, set, within(1.0, 100.0), sweep("70,75,80,85,90,95");
            /// Regions of CCoW-80 in the microbenchmark at an exponent of 1; 2048 KiB is measured as one of the thresholds
            regions_kib: u32 = 2048, set, within(32.0, 8192.0), sweep("32,64,128,256,512,1024,4096,8192");
            /// The microbenchmark's space (CCoW: 16 GiB)
            size_bytes: u64 = 64 << 20, set, size, unstored;
            /// How often its size is written (CCoW: ten)
            turnovers: f64 = 15.0, set, within(0.1, 10e3), unstored;
            /// Memory of Redis's records, roughly (CCoW: 10 GB)
            redis_bytes: u64 = 16 << 20, set, size, unstored;
            /// Updates of each of its phases for each record (CCoW: ten)
            redis_turnovers: f64 = 5.0, set, within(0.1, 10e3), unstored;
            /// Snapshots of each phase that takes any
            snapshots: u32 = 1, set, within(1.0, 100.0), unstored;
            /// Rates of Redis's open loops, as shares of what a server of base pages answers at most
            load: f64 = 0.5, set, within(0.001, 1.0);
            /// Rounds that measure Redis and the batches' costs as well
            redis_rounds: u32 = 3, set, within(1.0, 1e3), unstored;
        }
    }
}

/// `tend`.
pub mod tend {
    use crate::bench::bench;

    bench! {
        /// What `tend` is told by `--set`
        "tend --set";

        /// How a process is tended.
        cell TendSettings {
            /// Seconds from one look to the next, at a target that does not fork meanwhile
            interval_s: f64 = 10.0, set, within(0.001, 1e9), unstored;
            /// The most of one CPU that looking and, after the first pass, collapsing may take; what a
            /// quiet minute left of it, too. The warming of huge pages is counted apart
            cpu_share: f64 = 0.05, set, within(0.001, 1.0), unstored;
            /// Pages that may be absent from a region that is collapsed: they are filled in
            absent_pages: u64 = 8, set, within(0.0, 511.0), unstored;
        }
    }
}
