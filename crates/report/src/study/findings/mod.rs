// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plain findings about this machine, each with its figure, its interval and its samples.

mod checks;
mod processes;
mod stops;
mod writes;

use crate::document::{Block, Finding, Section};
use cowlab_analysis::study::Study;

/// A sentence with its conditions, and the anchor of the table or plot that holds its samples.
fn finding(headline: impl Into<String>, detail: impl Into<String>, samples: &str) -> Block {
    Block::Finding(Finding {
        headline: headline.into(),
        detail: detail.into(),
        samples: Some(format!("#{samples}")),
    })
}

/// The first section: what an operator wants to know, then what the measurements are worth.
pub(super) fn section(study: &Study) -> Section {
    let blocks = [
        stops::blocks(study),
        writes::blocks(study),
        processes::blocks(study),
        checks::blocks(study),
    ];
    Section::new("findings", "Plain findings about this machine", blocks.concat())
}
