// SPDX-License-Identifier: Apache-2.0 OR MIT

use zerocopy::{FromZeros, IntoBytes};

use super::*;
use crate::compose::{self, Payload};
use crate::meta::FieldKind;
use crate::write::{DataChunk, TraceWriter, new_header};

/// Two streams of `chunks` chunks with 10 events each, interleaved in time.
fn trace(chunks: u64, finish: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut header = new_header();
    header.clock = CASPER_CLOCK_CYCLES;
    (header.first_ticks, header.first_monotonic_ns) = (1000, 50);
    (header.last_ticks, header.last_monotonic_ns) = (3000, 1050);
    let mut writer = TraceWriter::create(&path, &header).unwrap();
    let size = [("size", "bytes", 8, 8, FieldKind::Unsigned), ("by", "", 2, 4, FieldKind::Text)];
    writer.meta(&compose::process(1, 100, (1, 0), CASPER_ORIGIN_STARTED, 1000, "/bin/a")).unwrap();
    writer.meta(&compose::event_type(1, 7, "alloc", 16, &size)).unwrap();
    writer.meta(&compose::process(2, 200, (100, 1), CASPER_ORIGIN_FORKED, 1000, "/bin/a")).unwrap();
    for number in 0..chunks {
        for stream in 1..=2u32 {
            let base_ticks = 1000 + number * 100;
            let mut payload = Payload::new(base_ticks);
            for event in 0..10u64 {
                let mut bytes = *b"\0\0ab\0\0\0\0________";
                bytes[..2].copy_from_slice(&7u16.to_ne_bytes());
                bytes[8..].copy_from_slice(&(number * 10 + event).to_ne_bytes());
                payload.event(base_ticks + event * 10 + u64::from(stream), &bytes);
            }
            let of = DataChunk {
                stream,
                process: stream,
                pid: stream * 100,
                tid: stream * 100,
                events: 10,
                first_event: number * 10,
                base_ticks,
                ..DataChunk::default()
            };
            writer.data(&of, &payload.bytes).unwrap();
        }
    }
    if finish {
        let mut totals = [casper_total::new_zeroed(); 2];
        for (total, stream) in totals.iter_mut().zip(1..) {
            (total.stream, total.process, total.stored) = (stream, stream, chunks * 10);
        }
        writer.header_mut().stored_events = chunks * 20;
        writer.finish(&totals).unwrap();
    }
    std::fs::read(&path).unwrap()
}

fn open(bytes: Vec<u8>) -> Result<Trace, ReadError> {
    Trace::from_bytes(bytes, "test.casper")
}

/// Events in file order and in the order of time, and the account.
fn read(bytes: Vec<u8>) -> (u64, u64, Damage) {
    let trace = open(bytes).unwrap();
    let mut events = 0;
    let damage = trace.for_each(|_, _| events += 1).unwrap();
    let mut merge = trace.merge().unwrap();
    let (mut merged, mut last) = (0, 0);
    while let Some(record) = merge.next().unwrap() {
        assert!(record.ticks >= last);
        last = record.ticks;
        merged += 1;
    }
    assert_eq!(merge.damage().missing_events, damage.missing_events);
    (events, merged, damage)
}

#[test]
fn a_whole_trace_comes_back() {
    let (events, merged, damage) = read(trace(50, true));
    assert_eq!((events, merged), (1000, 1000));
    assert!(damage.is_complete(), "{damage:?}");
}

#[test]
fn fields_have_names_and_a_child_has_its_parents_types() {
    let trace = open(trace(1, true)).unwrap();
    let mut merge = trace.merge().unwrap();
    let mut seen = 0;
    while let Some(record) = merge.next().unwrap() {
        assert_eq!(record.field("size"), Some(Value::Unsigned(seen / 2)));
        assert_eq!(record.field("by"), Some(Value::Text(b"ab")));
        assert_eq!(record.field("other"), None);
        assert_eq!(record.fields().map(|field| field.unit).collect::<Vec<_>>(), ["bytes", ""]);
        let process = (seen % 2) as u32 + 1;
        assert_eq!((record.owner.process, record.owner.pid), (process, process * 100));
        // 2 ticks a ns, from 50 ns on.
        assert_eq!(record.time_ns, 50 + (record.ticks - 1000) / 2);
        seen += 1;
    }
    assert_eq!(seen, 20);
}

#[test]
fn each_reason_for_refusal_has_its_error() {
    let good = trace(1, true);
    let with = |at: usize, bytes: &[u8]| {
        let mut copy = good.clone();
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        open(copy).unwrap_err().to_string()
    };
    assert!(open(Vec::new()).unwrap_err().to_string().contains("is empty"));
    assert!(with(0, b"ELF").contains("not a CASPER trace"));
    assert!(open(good[..4000].to_vec()).unwrap_err().to_string().contains("cut: it has 4000"));
    assert!(open(good[..3].to_vec()).unwrap_err().to_string().contains("cut: it has 3"));
    assert!(with(8, &CASPER_BYTE_ORDER.swap_bytes().to_ne_bytes()).contains("byte order"));
    assert!(with(12, &9u32.to_ne_bytes()).contains("version 9"));
    assert!(with(200, b"x").contains("header of test.casper"));
    let missing = Trace::open("/nowhere/t").unwrap_err().to_string();
    assert!(missing.contains("/nowhere/t"));
    assert!(Trace::open("/dev/null").unwrap_err().to_string().contains("not a plain file"));
}

#[test]
fn a_damaged_chunk_costs_only_itself() {
    let mut bytes = trace(50, true);
    // In the middle of a payload, and in another chunk's header: its size.
    let middle = bytes.len() / 2;
    let magic = CASPER_CHUNK_MAGIC.to_ne_bytes();
    let chunks: Vec<usize> =
        (middle..bytes.len()).step_by(8).filter(|&at| bytes[at..].starts_with(&magic)).collect();
    bytes[chunks[0] + 100] ^= 1;
    bytes[chunks[5] + 8] ^= 0x80;
    let (events, merged, damage) = read(bytes);
    assert_eq!((events, merged), (980, 980));
    assert_eq!((damage.missing_events, damage.missing_chunks), (20, 2));
    assert_eq!((damage.skipped_places, damage.cut_bytes), (2, 0));
    assert_eq!(damage.first_skipped, Some(chunks[0] as u64));
}

#[test]
fn without_totals_gaps_say_what_is_missing() {
    let mut bytes = trace(50, false);
    let magic = CASPER_CHUNK_MAGIC.to_ne_bytes();
    let at = (8000..bytes.len()).step_by(8).find(|&at| bytes[at..].starts_with(&magic)).unwrap();
    bytes[at + 100] ^= 1;
    let (_, _, damage) = read(bytes);
    assert_eq!((damage.missing_events, damage.finished), (10, false));
}

#[test]
fn every_cut_is_read_up_to_its_last_whole_chunk() {
    let bytes = trace(4, true);
    let mut last = 0;
    for cut in FILE_BYTES..bytes.len() {
        let (events, merged, damage) = read(bytes[..cut].to_vec());
        assert_eq!(events, merged);
        assert!(events >= last && events <= 80);
        assert_eq!(damage.skipped_bytes, 0, "{cut}: {damage:?}");
        last = events;
    }
    assert_eq!(last, 80);
}

#[test]
fn a_file_of_false_headers_is_searched_in_bounded_time() {
    let mut bytes = trace(0, false);
    let mut head = casper_chunk::new_zeroed();
    head.magic = CASPER_CHUNK_MAGIC;
    head.kind = CASPER_CHUNK_DATA;
    for _ in 0..100_000 {
        head.size = 4 << 20;
        bytes.extend_from_slice(head.as_bytes());
    }
    let begin = std::time::Instant::now();
    let (events, _, damage) = read(bytes);
    assert_eq!(events, 0);
    assert!(damage.skipped_bytes + damage.cut_bytes > 7_000_000);
    assert!(begin.elapsed().as_secs() < 20);
}
