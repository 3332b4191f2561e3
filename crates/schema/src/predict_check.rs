// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `predict-check`: random points that the model was not fitted to.

use crate::bench::bench;

bench! {
    /// Fork cycles of random cells, which have the parameters of fork-sweep, beside what is predicted
    "predict-check";

    parts {
        /// The point's number
        point: u64;
    }

    metrics {
        /// A cycle: from the fork until the child was reaped and the writes were over
        elapsed_ns: ns;
    }
}
