// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `blame`: which code copies pages.

use crate::bench::bench;
use crate::{Text, Writer};

bench! {
    /// Which code copies the pages that a fork shares
    "blame";

    parts {
        /// The program
        program: Text;
        /// Whose writes; its own where no fork shared the pages
        writer: Writer;
    }

    metrics {
        /// Pages that were copied because they were written
        copied_pages: pages;
        /// Processes that copied them
        processes: processes;
        /// Stacks that were told: those of all copies, or of a share of them
        told_stacks: stacks;
        /// Of them, those that go to their outermost frame
        whole_stacks: stacks;
        /// Stacks that were lost because nobody read them in time; the copies are counted
        lost_stacks: stacks;
        /// Of the copies one in so many was told, at the least
        told_every_copies: copies;
        /// Write faults that copied nothing, because the page was nobody else's any more
        reuse_faults: faults;
        /// What telling took of the programs' time
        telling_ns: ns;
        /// What reading and unwinding took beside them
        reading_ns: ns;
        /// How long the programs ran
        ran_ns: ns;
        /// How long they were looked at
        duration_ns: ns;
    }
}
