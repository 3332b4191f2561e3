// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints docs/metrics.md.

fn main() {
    let live = [
        cowlab_observe::watch::figures(),
        cowlab_observe::sharing::figures(),
        cowlab_observe::tend::figures::figures(),
    ];
    print!("{}", cowlab_schema::reference::page(&live));
}
