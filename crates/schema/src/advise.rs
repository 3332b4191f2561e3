// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `advise`: what a fork costs an application, and what each choice would change.

use crate::bench::bench;
use crate::{Figure, Text};

bench! {
    /// An application's fork under each choice, predicted and tried
    "advise";

    parts {
        /// What is changed
        choice: Text;
        /// Predicted, with its interval, or measured
        figure: Figure;
    }

    metrics {
        /// How long fork stops the parent
        stop_ns: ns;
        /// What the writes after it cost
        writes_ns: ns;
        /// Memory that the copies take
        extra_bytes: bytes;
        /// How often one forks that forks all the time
        forks_per_s: per_s;
        /// Memory that was copied
        copied_bytes: bytes;
    }
}
