// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a measurement's progress is shown, and told by a guest to whoever booted it.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Variable that asks a guest's cowlab for lines of progress.
pub const PROGRESS: &str = "COWLAB_PROGRESS";

/// Begins a line of progress: the share that is done, and what runs.
pub const MARK: &str = "progress ";

/// A bar of a thousand parts on standard error, with what runs.
pub fn bar() -> ProgressBar {
    let bar = ProgressBar::new(1000);
    bar.set_draw_target(ProgressDrawTarget::stderr());
    let style = "{elapsed_precise} {wide_bar} {percent:>3}% {eta_precise} left  {msg:50!}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}
