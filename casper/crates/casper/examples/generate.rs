// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Make a trace of any size, for measuring readers: generate FILE EVENTS [THREADS]
//!
//! Calls of 64 functions, 1 to 8 deep, and an `alloc` event in each eighth.

use std::path::Path;

use cowlab_casper::compose::{self, Payload};
use cowlab_casper::meta::FieldKind;
use cowlab_casper::record::*;
use cowlab_casper::write::{DataChunk, TraceWriter, new_header};
use zerocopy::FromZeros;

const CHUNK: usize = 60_000;

struct Thread {
    random: u64,
    ticks: u64,
    stack: Vec<u32>,
    events: u64,
}

impl Thread {
    fn random(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) % below
    }

    fn payload(&mut self) -> Payload {
        let mut payload = Payload::new(self.ticks);
        while payload.bytes.len() < CHUNK {
            self.ticks += 20 + self.random(200);
            let deep = self.stack.len() as u64;
            if self.random(8) == 0 {
                let mut event = [0u8; 16];
                event[0] = 7;
                event[8..].copy_from_slice(&(1 + self.random(4096)).to_ne_bytes());
                payload.event(self.ticks, &event);
            } else if deep > 0 && self.random(8) < deep {
                if let Some(function) = self.stack.pop() {
                    payload.exit(self.ticks, function);
                }
            } else {
                let function = 1 + self.random(64) as u32;
                self.stack.push(function);
                payload.enter(self.ticks, function, 0x7fff_0000 - deep * 64, 0x1000 + function);
            }
        }
        self.events += u64::from(payload.events);
        payload
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a file");
    let events: u64 = args.next().and_then(|text| text.parse().ok()).expect("a number of events");
    let threads: u32 = args.next().map_or(2, |text| text.parse().expect("a number of threads"));

    let mut header = new_header();
    header.clock = CASPER_CLOCK_MONOTONIC;
    (header.call_inner_ps, header.call_outer_ps, header.event_ps) = (5_000, 20_000, 10_000);
    header.command[..8].copy_from_slice(b"generate");
    let mut writer = TraceWriter::create(Path::new(&path), &header).expect("a trace");
    let names: Vec<String> = (1..=64).map(|number| format!("function_{number}")).collect();
    let list: Vec<(u32, &str)> = (1..).zip(names.iter().map(String::as_str)).collect();
    let fields = [("size", "bytes", 8, 8, FieldKind::Unsigned)];
    for entry in [
        compose::process(1, 100, (1, 0), CASPER_ORIGIN_STARTED, 0, "/bin/generate"),
        compose::functions(1, 1, "generate.c", &list),
        compose::event_type(1, 7, "alloc", 16, &fields),
    ] {
        writer.meta(&entry).expect("room");
    }
    let new = |seed| Thread { random: seed, ticks: 0, stack: Vec::new(), events: 0 };
    let mut all: Vec<Thread> = (1..=u64::from(threads)).map(new).collect();
    while all.iter().map(|thread| thread.events).sum::<u64>() < events {
        for (thread, stream) in all.iter_mut().zip(1..) {
            let first_event = thread.events;
            let payload = thread.payload();
            let of = DataChunk {
                stream,
                process: 1,
                pid: 100,
                tid: 99 + stream,
                events: payload.events,
                first_event,
                base_ticks: payload.base_ticks,
                ..DataChunk::default()
            };
            writer.data(&of, &payload.bytes).expect("room");
        }
    }
    let mut totals = vec![casper_total::new_zeroed(); all.len()];
    for ((total, thread), stream) in totals.iter_mut().zip(&all).zip(1..) {
        (total.stream, total.process, total.stored) = (stream, 1, thread.events);
    }
    let header = writer.header_mut();
    header.stored_events = totals.iter().map(|total| total.stored).sum();
    header.last_ticks = all.iter().map(|thread| thread.ticks).max().unwrap_or(0);
    header.last_monotonic_ns = header.last_ticks;
    writer.finish(&totals).expect("room");
}
