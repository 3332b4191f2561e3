// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What configurations are called.

use cowlab_analysis::configuration::{Configuration, Configurations};
use cowlab_schema::Policy;

use crate::fmt;

pub(crate) trait Names {
    /// `, 2 MiB pages`; nothing of base pages.
    fn pages(&self, page: u64) -> String;
    /// A configuration's name, after CCoW's.
    fn name(&self, one: &Configuration) -> String;
}

impl Names for Configurations<'_> {
    fn pages(&self, page: u64) -> String {
        match page == self.base_page {
            true => String::new(),
            false => format!(", {} pages", fmt::size(page)),
        }
    }

    fn name(&self, one: &Configuration) -> String {
        let mut name = match one.policy {
            Policy::Off | Policy::Stock => "CoW".to_owned(),
            Policy::CoverageOf(0, 0, Policy::REGION_KB) => "CCoW-All".to_owned(),
            policy @ Policy::CoverageOf(..) => policy.to_string().replace("ccow:", "CCoW-"),
            policy => format!("`{policy}`"),
        };
        name += &self.pages(one.page);
        match one.variant {
            Some(variant) if self.kernels => format!("{name} ({variant})"),
            _ => name,
        }
    }
}
