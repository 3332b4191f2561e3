// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libcasper's contract, by programs in `libcasper/tests` whose events prove themselves: at the odd
//! moments of a program's life each event is stored once, whole, under the right process, or
//! counted as not stored; and what somebody in the session, or a recorder that stands still, can do
//! about that.
//!
//! `COWLAB_TEST_LONG=1` runs the sizes that take minutes (`make test-long`). With
//! `CASPER_SANITIZE=thread`, or `address,undefined`, libcasper and its programs run under a sanitizer.

mod hostile;
mod life;
mod programs;
mod scribble;
mod stalled;
