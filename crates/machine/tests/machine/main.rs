// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One program for all of these tests: each would be linked by itself.

mod fit;
mod fixtures;
mod fork;
mod guard;
mod live;
mod policy;

use std::time::{Duration, Instant};

/// Waits for another process, at most 10 s.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
