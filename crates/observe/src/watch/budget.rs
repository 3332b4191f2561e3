// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much of a CPU looking may take. Pure.

/// Walking the page tables of a large process takes long, so that it is done seldom: what a walk
/// took is a debt that time pays off at a fixed share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// The part of one CPU that may be spent.
    share: f64,
    /// What may be saved up, in ns of CPU time.
    credit_ns: f64,
    /// What is still to be paid, in ns of CPU time; below 0: what is saved up.
    debt_ns: f64,
}

impl Budget {
    /// A budget of that share of one CPU, with so much saved up, which is also the most.
    pub fn new(share: f64, credit_ns: f64) -> Budget {
        Budget { share, credit_ns, debt_ns: -credit_ns }
    }

    pub fn pass(&mut self, elapsed_ns: u64) {
        // No more than that is saved up: a long burst of walks after a quiet hour would be felt.
        self.debt_ns = (self.debt_ns - elapsed_ns as f64 * self.share).max(-self.credit_ns);
    }

    /// Whether the next walk may begin.
    pub fn allows(&self) -> bool {
        self.debt_ns <= 0.0
    }

    pub fn spend(&mut self, cost_ns: u64) {
        self.debt_ns += cost_ns as f64;
    }

    /// How long until the next walk may begin.
    pub fn wait_ns(&self) -> u64 {
        (self.debt_ns.max(0.0) / self.share) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_walk_is_seldom_and_a_cheap_one_is_not() {
        let mut budget = Budget::new(0.01, 0.0);
        assert!(budget.allows());
        budget.spend(100_000_000);
        assert!(!budget.allows());
        assert_eq!(budget.wait_ns(), 10_000_000_000);
        budget.pass(9_000_000_000);
        assert!(!budget.allows());
        budget.pass(1_000_000_000);
        assert!(budget.allows());
        budget.pass(3_600_000_000_000);
        budget.spend(10_000_000);
        assert_eq!(budget.wait_ns(), 1_000_000_000, "nothing is saved up");
    }

    #[test]
    fn a_little_is_saved_up_for_a_child_that_lives_for_a_moment() {
        let mut budget = Budget::new(0.01, 5_000_000.0);
        for _ in 0..5 {
            assert!(budget.allows());
            budget.spend(1_100_000);
        }
        assert!(!budget.allows());
        budget.pass(3_600_000_000_000);
        budget.spend(6_000_000);
        assert_eq!(budget.wait_ns(), 100_000_000);
    }
}
