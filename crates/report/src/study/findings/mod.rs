// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plain findings about this machine, each with its figure, its interval and its samples.

mod checks;
mod processes;
mod stops;
mod writes;

use cowlab_analysis::study::Study;

use crate::document::Section;

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
