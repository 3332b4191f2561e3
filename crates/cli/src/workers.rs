// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The columns of a table of workers, for the page and for live views.

use cowlab_observe::sharing::{Figures, Worker};
use cowlab_schema::fmt::{age, bytes, quantity};

/// A column.
pub struct Column {
    /// What it is called.
    pub head: &'static str,
    /// Of its cells, at most.
    pub width: u16,
    /// What is wanted less has a higher one, and goes first where there is no room; 0 has a place on a narrow
    /// terminal.
    pub rank: u8,
    /// A cell; `None` of what is not known.
    pub cell: fn(&Worker) -> Option<String>,
    /// Whether it is worth its place; that of what is 0 everywhere is not.
    pub is_shown: fn(&Figures) -> bool,
}

const fn main(head: &'static str, width: u16, cell: fn(&Worker) -> Option<String>) -> Column {
    Column { head, width, rank: 0, cell, is_shown: |_| true }
}

/// Every column.
pub const COLUMNS: [Column; 11] = [
    main("process", 14, |of| {
        let role = if of.parent.is_none() { "parent" } else { "worker" };
        Some(format!("{role} {}", of.pid))
    }),
    main("age", 10, |of| Some(age(of.age_s))),
    Column { rank: 2, ..main("resident", 9, |of| of.rss_bytes.map(bytes)) },
    main("shared", 9, |of| of.shared_bytes.map(bytes)),
    main("own", 9, |of| Some(bytes(of.own_bytes))),
    Column { rank: 1, ..main("copied", 9, |of| of.copied_bytes.map(bytes)) },
    Column {
        rank: 3,
        is_shown: |of| of.workers.iter().all(|one| one.erosion_bytes_per_s.is_none()),
        ..main("files", 9, |of| of.file_bytes.map(bytes))
    },
    Column {
        rank: 3,
        is_shown: |of| any(of, |one| one.shm_bytes),
        ..main("shm", 9, |of| of.shm_bytes.map(bytes))
    },
    Column {
        rank: 3,
        is_shown: |of| any(of, |one| one.swapped_bytes),
        ..main("swapped", 9, |of| of.swapped_bytes.map(bytes))
    },
    Column {
        is_shown: |of| of.workers.iter().any(|one| one.erosion_bytes_per_s.is_some()),
        ..main("loses/min", 9, |of| of_worker(of, of.erosion_bytes_per_s.map(a_minute)))
    },
    Column {
        is_shown: |of| of.workers.iter().any(|one| one.shared_ends_s.is_some()),
        ..main("none in", 12, |of| of_worker(of, of.shared_ends_s.map(age)))
    },
];

fn any(of: &Figures, bytes: fn(&Worker) -> Option<u64>) -> bool {
    of.workers.iter().filter_map(bytes).any(|bytes| bytes > 0)
}

/// A cell that is empty for the parent: it gives memory to its workers, and loses none.
fn of_worker(of: &Worker, cell: Option<String>) -> Option<String> {
    of.parent.map_or_else(|| Some(String::new()), |_| cell)
}

/// What is lost in a minute.
pub fn a_minute(bytes_per_s: f64) -> String {
    quantity((bytes_per_s * 60.0).round(), "bytes")
}
