// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What writes, faults and forks cost, as measured.

/// A fault that copies some pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batch {
    /// Pages, the one that was written among them.
    pub pages: f64,
    /// The time of all of it.
    pub elapsed_ns: f64,
}

/// Costs of one machine and one program.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// One write that does not fault.
    pub write_ns: f64,
    /// One fork.
    pub fork_ns: f64,
    /// Faults by the pages that they copy, ascending; the first copies one.
    batches: Vec<Batch>,
}

impl Costs {
    /// Costs with at least a fault of one page; `None` without one.
    pub fn new(write_ns: f64, fork_ns: f64, mut batches: Vec<Batch>) -> Option<Costs> {
        batches.sort_by(|a, b| a.pages.total_cmp(&b.pages));
        let first = batches.first()?;
        (first.pages == 1.0 && first.elapsed_ns > 0.0).then_some(Costs {
            write_ns,
            fork_ns,
            batches,
        })
    }

    /// A fault that copies only the page that was written.
    pub fn fault_ns(&self) -> f64 {
        self.batches[0].elapsed_ns
    }

    /// The same machine seen by a program whose fault costs so much. What it pays beyond the sweep's
    /// comes with each fault, and not with each page: the flush, and what it has to fetch again.
    pub fn with_fault_ns(&self, fault_ns: f64) -> Costs {
        let beyond_ns = fault_ns - self.fault_ns();
        let moved = |batch: &Batch| Batch {
            elapsed_ns: (batch.elapsed_ns + beyond_ns).max(fault_ns),
            ..*batch
        };
        Costs { batches: self.batches.iter().map(moved).collect(), ..self.clone() }
    }

    /// A fault that copies so many pages: between two measured sizes, in proportion; beyond the
    /// largest, as each of its pages.
    pub fn batch_ns(&self, pages: usize) -> f64 {
        let pages = pages as f64;
        let after = self.batches.partition_point(|batch| batch.pages < pages);
        match (self.batches.get(after.wrapping_sub(1)), self.batches.get(after)) {
            (Some(low), Some(high)) => {
                let share = (pages - low.pages) / (high.pages - low.pages);
                low.elapsed_ns + share * (high.elapsed_ns - low.elapsed_ns)
            }
            (Some(last), None) => last.elapsed_ns / last.pages * pages,
            (None, Some(first)) => first.elapsed_ns,
            (None, None) => 0.0,
        }
    }
}
