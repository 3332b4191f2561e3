// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report on a trace, against saved files; `UPDATE_GOLDEN=1` saves them anew.

#[path = "../../../../../../crates/document/tests/support/golden.rs"]
mod golden;

use std::path::Path;

use cowlab_casper::compose::{self, Payload};
use cowlab_casper::meta::FieldKind;
use cowlab_casper::profile::{Pair, Profile, ProfileSettings};
use cowlab_casper::read::Trace;
use cowlab_casper::record::{CASPER_CLOCK_MONOTONIC, CASPER_ORIGIN_STARTED};
use cowlab_casper::write::{DataChunk, TraceWriter, new_header};
use cowlab_document::{html, terminal};
use golden::check;

use super::{Group, View, document, summary};

/// 100 forks that call ptalloc six times each, as in 1988.
fn trace(path: &Path) {
    let mut header = new_header();
    header.clock = CASPER_CLOCK_MONOTONIC;
    (header.call_inner_ps, header.call_outer_ps, header.event_ps) = (10_000, 30_000, 20_000);
    header.dropped_events = 12;
    header.command[..4].copy_from_slice(b"fork");
    let mut writer = TraceWriter::create(path, &header).unwrap();
    let names = [(10, "fork"), (20, "ptalloc"), (30, "operator[](int)")];
    for entry in [
        compose::process(1, 100, (1, 0), CASPER_ORIGIN_STARTED, 0, "/bin/fork"),
        compose::functions(1, 1, "src/fork.c", &names),
        compose::event_type(1, 7, "contmemall", 8, &[("pages", "", 4, 4, FieldKind::Unsigned)]),
        compose::event_type(1, 8, "search", 8, &[]),
    ] {
        writer.meta(&entry).unwrap();
    }
    let mut payload = Payload::new(0);
    let event = |number: u8, pages: u8| [number, 0, 0, 0, pages, 0, 0, 0];
    for fork in 0..100u64 {
        let at = fork * 20_000_000;
        payload.enter(at, 1, 0x9000, 0x100);
        payload.event(at + 670_000 + fork, &event(8, 0));
        for call in 0..6 {
            let begin = at + 1_000_000 + call * 1_000_000;
            payload.enter(begin, 2, 0x8000, 0x200 + call as u32 / 2);
            payload.event(begin + 10, &event(7, if fork == 50 && call > 3 { 2 } else { 1 }));
            payload.exit(begin + 450_000 + fork, 2);
        }
        payload.exit(at + 14_710_000, 1);
    }
    payload.enter(3_000_000_000, 3, 0x9000, 0x100);
    let of = DataChunk {
        stream: 1,
        process: 1,
        pid: 100,
        tid: 101,
        events: payload.events,
        ..DataChunk::default()
    };
    writer.data(&of, &payload.bytes).unwrap();
    writer.finish(&[]).unwrap();
}

#[test]
fn a_trace_of_forks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.casper");
    trace(&path);
    let pair = |name: &str, from: &str, to: &str| Pair {
        name: name.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
    };
    let settings = ProfileSettings {
        pairs: vec![
            pair("First allocation", "search", "contmemall"),
            pair("Between searches", "search", "search"),
        ],
        field: Some(("contmemall".to_owned(), "pages".to_owned())),
        ..ProfileSettings::default()
    };
    let profile = Profile::of(&Trace::open(&path).unwrap(), &settings).unwrap();
    let view = View {
        function: Some("*".to_owned()),
        total: Some("Between searches".to_owned()),
        group: Group::Thread,
        ..View::default()
    };
    let plain = document("Trace of fork", Vec::new(), &profile, &view);
    check("casper.txt", &terminal::render(&plain, Some(100), false));
    let page =
        document("Trace of fork", Vec::new(), &profile, &View { plots: true, ..view.clone() });
    check("casper.html", &html::render_body(&page).replace("><", ">\n<"));
    let json = summary(&profile, &view);
    check("casper.json", &(serde_json::to_string_pretty(&json).unwrap() + "\n"));
}
