// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metadata and payloads as programs write them: for tests, examples and the generator of traces.

use zerocopy::IntoBytes;

use crate::meta::FieldKind;
use crate::record::*;
use crate::walk::append;

/// An entry of metadata.
pub fn entry(kind: u32, process: u32, content: &[u8]) -> Vec<u8> {
    let size = size_of::<casper_meta>() + padded(content.len());
    let head = casper_meta {
        size: size as u32,
        kind: kind as u16,
        committed: 1,
        process,
        length: content.len() as u32,
    };
    let mut bytes = head.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(size, 0);
    bytes
}

/// A process; `parent` is its pid and its number.
pub fn process(
    number: u32,
    pid: u32,
    parent: (u32, u32),
    origin: u32,
    ticks: u64,
    path: &str,
) -> Vec<u8> {
    let (parent_pid, parent_process) = parent;
    let head = casper_meta_process { pid, parent_pid, parent_process, origin, ticks };
    entry(CASPER_META_PROCESS, number, &[head.as_bytes(), path.as_bytes(), b"\0"].concat())
}

/// A type; of each field its name, unit, offset, size and kind.
pub fn event_type(
    process: u32,
    number: u16,
    name: &str,
    event_bytes: u32,
    fields: &[(&str, &str, u32, u32, FieldKind)],
) -> Vec<u8> {
    let field_count = fields.len() as u16;
    let head = casper_meta_type { event_type: number, field_count, event_bytes };
    let mut content = head.as_bytes().to_vec();
    for &(_, _, offset, size, kind) in fields {
        let kind = match kind {
            FieldKind::Unsigned => CASPER_UNSIGNED,
            FieldKind::Signed => CASPER_SIGNED,
            FieldKind::Float => CASPER_FLOAT,
            FieldKind::Address => CASPER_ADDRESS,
            FieldKind::Text => CASPER_TEXT,
        };
        content.extend(casper_meta_field { offset, size, count: 1, kind }.as_bytes());
    }
    let texts = fields.iter().flat_map(|&(name, unit, ..)| [name, unit]);
    for text in std::iter::once(name).chain(texts) {
        content.extend(text.bytes().chain([0]));
    }
    entry(CASPER_META_TYPE, process, &content)
}

/// The functions of a source file, with their lines.
pub fn functions(process: u32, first: u32, file: &str, list: &[(u32, &str)]) -> Vec<u8> {
    let mut content = casper_meta_functions { first, count: list.len() as u32 }.as_bytes().to_vec();
    content.extend(file.bytes().chain([0]));
    for (line, name) in list {
        content.extend(line.to_ne_bytes());
        content.extend(name.bytes().chain([0]));
    }
    entry(CASPER_META_FUNCTIONS, process, &content)
}

/// A file that is mapped with its code at `start..end`.
pub fn module(process: u32, range: (u64, u64), bias: u64, id: &[u8], path: &str) -> Vec<u8> {
    let mut build_id = [0; 20];
    let length = id.len().min(20);
    build_id[..length].copy_from_slice(&id[..length]);
    let head = casper_meta_module {
        start: range.0,
        end: range.1,
        bias,
        build_id_bytes: length as u32,
        build_id,
    };
    entry(CASPER_META_MODULE, process, &[head.as_bytes(), path.as_bytes(), b"\0"].concat())
}

/// The name of a thread.
pub fn thread(process: u32, tid: u32, name: &str) -> Vec<u8> {
    let mut field = [0; 16];
    let length = name.len().min(15);
    field[..length].copy_from_slice(&name.as_bytes()[..length]);
    entry(CASPER_META_THREAD, process, casper_meta_thread { tid, name: field }.as_bytes())
}

/// Records one after the other, with times from `base_ticks`.
#[derive(Debug, Clone, Default)]
pub struct Payload {
    /// The records.
    pub bytes: Vec<u8>,
    /// Events among them.
    pub events: u32,
    /// Time to which they add theirs.
    pub base_ticks: u64,
}

impl Payload {
    /// Without records.
    pub fn new(base_ticks: u64) -> Payload {
        Payload { base_ticks, ..Payload::default() }
    }

    /// An event of a type of the developers'.
    pub fn event(&mut self, ticks: u64, event: &[u8]) {
        append(&mut self.bytes, ticks.wrapping_sub(self.base_ticks), event);
        self.events += 1;
    }

    /// The beginning of a function that `insert` numbered.
    pub fn enter(&mut self, ticks: u64, function: u32, frame: u64, call_site: u32) {
        let event = casper_enter {
            event_type: CASPER_ENTER as u16,
            frame_high: (frame >> 32) as u16,
            frame_low: frame as u32,
            function,
            call_site,
        };
        self.event(ticks, event.as_bytes());
    }

    /// Its end.
    pub fn exit(&mut self, ticks: u64, function: u32) {
        let event = casper_exit { event_type: CASPER_EXIT as u16, unused: 0, function };
        self.event(ticks, event.as_bytes());
    }

    /// The beginning of a function that -finstrument-functions reports.
    pub fn enter_address(&mut self, ticks: u64, function: u64, frame: u64, call_site: u64) {
        let event = casper_enter_address {
            event_type: CASPER_ENTER_ADDRESS as u16,
            frame_high: (frame >> 32) as u16,
            frame_low: frame as u32,
            function,
            call_site,
        };
        self.event(ticks, event.as_bytes());
    }

    /// Its end.
    pub fn exit_address(&mut self, ticks: u64, function: u64) {
        let event = casper_exit_address {
            event_type: CASPER_EXIT_ADDRESS as u16,
            unused: 0,
            unused2: 0,
            function,
        };
        self.event(ticks, event.as_bytes());
    }

    /// What follows is another process's.
    pub fn switch(&mut self, ticks: u64, process: u32, pid: u32, tid: u32) {
        let event_type = CASPER_SWITCH as u16;
        let note = casper_switch { event_type, unused: 0, process, pid, tid };
        append(&mut self.bytes, ticks.wrapping_sub(self.base_ticks), note.as_bytes());
    }

    /// Events were dropped here.
    pub fn lost(&mut self, ticks: u64, dropped: u64) {
        let event_type = CASPER_LOST as u16;
        let note = casper_lost { event_type, unused: 0, unused2: 0, dropped };
        append(&mut self.bytes, ticks.wrapping_sub(self.base_ticks), note.as_bytes());
    }
}
