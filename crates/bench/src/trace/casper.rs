// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libcasper's events and calls.

use anyhow::{Result, bail};

use super::{Settings, Tool};
use crate::task::Task;

/// Tasks for `tool`, or why there are none.
pub(super) fn tasks(_settings: &Settings, _tool: Tool) -> Result<Vec<Task>> {
    bail!("this cowlab was built without libcasper")
}
