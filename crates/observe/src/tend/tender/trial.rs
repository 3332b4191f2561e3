// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a collapse costs here, tried on memory of our own.

use super::Tender;
use crate::tend::sys::OwnRegion;

impl Tender {
    /// The CPU time of one with its warming, tried on memory of our own. The first of them meets memory
    /// that nobody has touched for long.
    pub(super) fn collapse_ns(&mut self) -> Option<u64> {
        let mut like = OwnRegion::map(self.huge_page_bytes).ok()?;
        let page_bytes = self.page_bytes() as usize;
        let mut one = || {
            like.fill(page_bytes);
            self.collapser.warm(&self.target, None).ok()?;
            let cost = self.collapser.try_out(&self.target, &mut like).ok()?;
            like.release();
            Some(cost.cpu_ns + cost.warming_cpu_ns)
        };
        (0..3).filter_map(|_| one()).min()
    }
}
