// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel lab: fetches a kernel's source, builds it with the patches of `kernel/upstream` and
//! `kernel/research`, boots it in a guest on this machine's files, and judges what the guest's tests and its log say.

pub mod accelerator;
pub mod boot;
pub mod build;
pub mod cache;
pub mod config;
pub mod console;
pub mod key;
pub mod ktap;
mod make;
pub mod outcome;
pub mod patches;
pub mod qemu;
pub mod selftests;
pub mod source;
pub mod testing;
pub mod tools;
pub mod traced;
pub mod tree;
mod watch;

pub use accelerator::AcceleratorChoice;
pub use boot::{Ended, Guest, boot};
pub use build::{Built, Order, Variant, build};
pub use cache::Cache;
pub use patches::{KernelFolder, Series};
pub use qemu::Machine;
pub use source::SourceChoice;
pub use watch::{Interrupted, Watch};
