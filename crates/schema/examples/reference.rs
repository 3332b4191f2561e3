// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints docs/metrics.md.

fn main() {
    print!("{}", cowlab_schema::reference::page());
}
