// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that run in a guest: upstream's selftests and the project's own, on several kernels and
//! under several policies, and whether their results are what they have to be.

pub mod judge;
pub mod list;
pub mod programs;
pub mod results;
pub mod script;
pub mod session;

pub use judge::{Problem, judge};
pub use list::{List, Test};
pub use programs::programs;
pub use session::{Session, run};
