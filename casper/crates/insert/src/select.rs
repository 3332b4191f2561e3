// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of the functions found are to be instrumented.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::Function;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Target {
    /// A program that is linked with libcasper.
    #[default]
    Program,
    /// The Linux kernel, which has functions that must not be instrumented and says so by words of
    /// its own, and a header of its own.
    Kernel,
}

#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub(crate) target: Target,
    only: Option<GlobSet>,
    exclude: GlobSet,
    lines_min: u32,
}

pub(crate) fn glob_set(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern)?);
    }
    set.build()
}

impl Selection {
    /// Functions whose name matches one of `only` (all, if there is none) and none of `exclude`,
    /// with at least `lines_min` lines.
    pub fn new(
        only: &[String],
        exclude: &[String],
        lines_min: u32,
    ) -> Result<Selection, globset::Error> {
        let only = if only.is_empty() { None } else { Some(glob_set(only)?) };
        let target = Target::Program;
        Ok(Selection { target, only, exclude: glob_set(exclude)?, lines_min })
    }

    /// The same for sources of another kind.
    pub fn of(self, target: Target) -> Selection {
        Selection { target, ..self }
    }

    /// Why a function is not selected.
    pub fn refuses(&self, function: &Function) -> Option<String> {
        let name = function.name.as_str();
        if self.only.as_ref().is_some_and(|only| !only.is_match(name)) {
            return Some("its name matches no --function".into());
        }
        if self.exclude.is_match(name) {
            return Some("its name matches --exclude".into());
        }
        let lines = function.lines;
        (lines < self.lines_min).then(|| format!("it has {lines} lines"))
    }
}
