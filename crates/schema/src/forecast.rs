// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `forecast`: real programs' forks, predicted and measured.

use crate::bench::bench;
use crate::{Figure, Text};

bench! {
    /// What real programs' forks cost them, predicted and measured
    "forecast";

    parts {
        /// The program
        name: Text;
        /// Predicted, with its interval, or measured
        figure: Figure;
    }

    metrics {
        /// What the work takes longer beside a fork
        extra_ns: ns;
        /// The fork call
        fork_ns: ns;
        /// What the writes take longer
        write_ns: ns;
        /// The work without a fork
        alone_ns: ns;
        /// Faults more than without a fork
        extra_faults: faults;
        /// Memory more than without a fork
        extra_bytes: bytes;
    }
}
