// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace by a recipe: short inputs make chunks, records and metadata whose checksums are right.

use cowlab_casper::compose::{self, Payload};
use cowlab_casper::meta::FieldKind;
use cowlab_casper::record::*;
use cowlab_casper::walk::append;
use cowlab_casper::write::{chunk_crc, header_crc, new_header};
use zerocopy::{FromZeros, IntoBytes};

/// As much of a recipe as there is: what runs out is 0.
struct Recipe<'a>(&'a [u8]);

impl Recipe<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        bytes[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        bytes
    }

    fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    fn word(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => u64::from(self.byte()),
            1 => u64::from(self.half()),
            2 => u64::MAX - u64::from(self.byte()),
            _ => u64::from_le_bytes(self.array()),
        }
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = usize::from(self.half()) % (most + 1);
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }
}

pub fn trace(input: &[u8]) -> Vec<u8> {
    let mut recipe = Recipe(input);
    let mut header = new_header();
    header.mode = u32::from(recipe.byte());
    header.clock = u32::from(recipe.byte() % 3);
    if recipe.byte() % 2 == 1 {
        (header.first_ticks, header.last_ticks) = (recipe.word(), recipe.word());
        (header.first_monotonic_ns, header.last_monotonic_ns) = (recipe.word(), recipe.word());
        (header.call_inner_ps, header.call_outer_ps) = (recipe.word(), recipe.word());
        (header.event_ps, header.stored_events) = (recipe.word(), recipe.word());
        header.finished = u32::from(recipe.byte() % 2);
    }
    header.crc = header_crc(&header);
    let mut bytes = header.as_bytes().to_vec();
    let mut sequence = 0;
    // Longer ones only take longer.
    while !recipe.0.is_empty() && bytes.len() < 1 << 15 {
        match recipe.byte() % 8 {
            0..3 => {
                let payload = records(&mut recipe);
                data(&mut recipe, &mut bytes, &payload, &mut sequence);
            }
            3 => {
                let payload = Payload { bytes: recipe.bytes(4096), ..Payload::default() };
                data(&mut recipe, &mut bytes, &payload, &mut sequence);
            }
            4 => {
                let list = metadata(&mut recipe);
                chunk(&mut bytes, CASPER_CHUNK_META, &list, &mut sequence, |_| {});
            }
            5 => {
                let totals = recipe.bytes(400);
                chunk(&mut bytes, CASPER_CHUNK_END, &totals, &mut sequence, |_| {});
            }
            6 => bytes.extend(recipe.bytes(600)),
            _ => damage(&mut recipe, &mut bytes),
        }
    }
    bytes
}

fn damage(recipe: &mut Recipe<'_>, bytes: &mut Vec<u8>) {
    let after = bytes.len() - FILE_BYTES;
    if after == 0 {
        return;
    }
    let at = FILE_BYTES + recipe.word() as usize % after;
    match recipe.byte() % 3 {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= recipe.byte(),
        _ => {
            let again = bytes[at & !7..].to_vec();
            bytes.extend(again);
        }
    }
}

fn chunk(
    bytes: &mut Vec<u8>,
    kind: u32,
    payload: &[u8],
    sequence: &mut u64,
    fill: impl FnOnce(&mut casper_chunk),
) {
    let mut head = casper_chunk::new_zeroed();
    head.magic = CASPER_CHUNK_MAGIC;
    head.size = payload.len() as u32;
    head.kind = kind;
    head.sequence = *sequence;
    fill(&mut head);
    head.crc = chunk_crc(&head, payload);
    *sequence = sequence.wrapping_add(1);
    bytes.extend(head.as_bytes());
    bytes.extend(payload);
    bytes.resize(padded(bytes.len()), 0);
}

fn data(recipe: &mut Recipe<'_>, bytes: &mut Vec<u8>, payload: &Payload, sequence: &mut u64) {
    if recipe.byte() % 16 == 15 {
        *sequence = recipe.word();
    }
    let (base_ticks, events) = (payload.base_ticks, payload.events);
    chunk(bytes, CASPER_CHUNK_DATA, &payload.bytes, sequence, |head| {
        head.stream = u32::from(recipe.byte() % 4);
        head.process = u32::from(recipe.byte() % 4);
        (head.pid, head.tid) = (head.process, u32::from(recipe.byte()));
        head.events = events;
        if recipe.byte() % 4 == 3 {
            (head.first_event, head.dropped) = (recipe.word(), recipe.word());
            head.events = recipe.word() as u32;
        }
        head.base_ticks = base_ticks;
    });
}

fn records(recipe: &mut Recipe<'_>) -> Payload {
    let mut ticks = recipe.word();
    let mut payload = Payload::new(ticks);
    for _ in 0..recipe.byte() {
        if recipe.0.is_empty() {
            break;
        }
        ticks = ticks.wrapping_add(u64::from(recipe.byte()));
        let function = u64::from(recipe.byte() % 8);
        match recipe.byte() % 9 {
            0 | 1 => payload.enter(ticks, function as u32, frame(recipe), recipe.byte().into()),
            2 | 3 => payload.exit(ticks, function as u32),
            4 => payload.enter_address(ticks, function, frame(recipe), recipe.word()),
            5 => payload.exit_address(ticks, function),
            6 => payload.switch(ticks, u32::from(recipe.byte() % 4), 7, 7),
            7 => payload.lost(ticks, u64::from(recipe.byte() % 8)),
            _ => {
                let mut event = vec![recipe.byte() % 4, 0];
                event.extend(recipe.bytes(40));
                payload.event(ticks, &event);
            }
        }
        if recipe.byte() % 64 == 63 {
            append(&mut payload.bytes, recipe.word() & 0xffff_ffff_ffff, &recipe_event(recipe));
        }
    }
    payload
}

fn recipe_event(recipe: &mut Recipe<'_>) -> Vec<u8> {
    let mut event = recipe.bytes(4094);
    event.splice(0..0, [recipe.byte(), recipe.byte()]);
    event
}

fn frame(recipe: &mut Recipe<'_>) -> u64 {
    match recipe.byte() {
        0 => 0,
        place => 0x7000_0000 + u64::from(place) * 16,
    }
}

fn metadata(recipe: &mut Recipe<'_>) -> Vec<u8> {
    let mut list = Vec::new();
    for _ in 0..=recipe.byte() % 4 {
        let process = u32::from(recipe.byte() % 4);
        list.extend(match recipe.byte() % 7 {
            0 => {
                let (parent, origin) = (recipe.byte() % 4, recipe.byte() % 5);
                compose::process(process, process, (1, parent.into()), origin.into(), 0, "/x")
            }
            1 | 2 => {
                const KINDS: [FieldKind; 5] = [
                    FieldKind::Unsigned,
                    FieldKind::Signed,
                    FieldKind::Float,
                    FieldKind::Address,
                    FieldKind::Text,
                ];
                let kind = KINDS[usize::from(recipe.byte() % 5)];
                let (offset, size) = (recipe.byte().into(), 1 << (recipe.byte() % 4));
                let fields = [("a", "bytes", offset, size, kind)];
                compose::event_type(process, u16::from(recipe.byte() % 4), "t", 8, &fields)
            }
            3 => compose::functions(process, recipe.word() as u32, "f.c", &[(1, "f"), (2, "g")]),
            4 => {
                let range = (recipe.word(), recipe.word());
                compose::module(process, range, recipe.word(), &[1, 2], "/nowhere")
            }
            5 => compose::thread(process, recipe.byte().into(), "thread"),
            _ => {
                let kind = recipe.byte();
                compose::entry(kind.into(), process, &recipe.bytes(300))
            }
        });
    }
    if recipe.byte() % 8 == 7 {
        list.extend(recipe.bytes(200));
    }
    list
}
