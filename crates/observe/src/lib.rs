// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live processes from outside: their forks, copies and sharing, observed over a time. Only [`tend`]
//! changes one: it merges its memory into huge pages.

pub mod blame;
pub mod bpf;
mod clock;
pub mod footprint;
pub mod forkers;
pub mod redis;
pub mod sharing;
pub mod tend;
pub mod watch;

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_of_figures_in_the_repository_is_this_one() {
        let verbs =
            [crate::watch::figures(), crate::sharing::figures(), crate::tend::figures::figures()];
        let kept = include_str!("../../../docs/metrics.md");
        let page = cowlab_schema::reference::page(&verbs);
        assert!(kept == page, "docs/metrics.md is stale: run `make docs/metrics.md`");
    }
}
