// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The columns of the table of workers.

use cowlab_observe::sharing::{Figures, Worker};
use cowlab_schema::fmt::{age, bytes, quantity};

pub struct Column {
    pub head: &'static str,
    /// A cell; `None` of what is not known.
    pub cell: fn(&Worker) -> Option<String>,
    /// Whether it is worth its place; that of what is 0 everywhere is not.
    pub is_shown: fn(&Figures) -> bool,
}

const fn always(head: &'static str, cell: fn(&Worker) -> Option<String>) -> Column {
    Column { head, cell, is_shown: |_| true }
}

pub const COLUMNS: [Column; 11] = [
    always("process", |worker| {
        let role = if worker.parent.is_none() { "parent" } else { "worker" };
        Some(format!("{role} {}", worker.pid))
    }),
    always("age", |worker| Some(age(worker.age_s))),
    always("resident", |worker| worker.rss_bytes.map(bytes)),
    always("shared", |worker| worker.shared_bytes.map(bytes)),
    always("own", |worker| Some(bytes(worker.own_bytes))),
    always("copied", |worker| worker.copied_bytes.map(bytes)),
    Column {
        is_shown: |family| family.workers.iter().all(|one| one.erosion_bytes_per_s.is_none()),
        ..always("files", |worker| worker.file_bytes.map(bytes))
    },
    Column {
        is_shown: |family| any(family, |one| one.shm_bytes),
        ..always("shm", |worker| worker.shm_bytes.map(bytes))
    },
    Column {
        is_shown: |family| any(family, |one| one.swapped_bytes),
        ..always("swapped", |worker| worker.swapped_bytes.map(bytes))
    },
    Column {
        is_shown: |family| family.workers.iter().any(|one| one.erosion_bytes_per_s.is_some()),
        ..always("loses/min", |one| unless_parent(one, one.erosion_bytes_per_s.map(a_minute)))
    },
    Column {
        is_shown: |family| family.workers.iter().any(|one| one.shared_ends_s.is_some()),
        ..always("none in", |one| unless_parent(one, one.shared_ends_s.map(age)))
    },
];

fn any(family: &Figures, bytes: fn(&Worker) -> Option<u64>) -> bool {
    family.workers.iter().filter_map(bytes).any(|bytes| bytes > 0)
}

/// A cell that is empty for the parent: it gives memory to its workers, and loses none.
fn unless_parent(worker: &Worker, cell: Option<String>) -> Option<String> {
    worker.parent.map_or_else(|| Some(String::new()), |_| cell)
}

pub fn a_minute(bytes_per_s: f64) -> String {
    quantity((bytes_per_s * 60.0).round(), "bytes")
}
