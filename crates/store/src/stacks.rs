// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies of pages with the stacks that made them, in pprof's format, which `go tool pprof`, speedscope
//! and others open: one sample a copy, its circumstances as labels.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prost::Message as _;

use crate::pprof::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

pub const STACKS_FILE: &str = "stacks.pb.gz";

/// No run has more, packed or not.
const MOST_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct CopyStacks {
    pub frames: Vec<Frame>,
    pub copies: Vec<Copy>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    /// The file that has it; empty of code that a program made itself.
    pub module: String,
    /// Its address in that file, or in memory.
    pub address: u64,
    /// The functions there, the innermost that was inlined first, with source file and line.
    pub functions: Vec<(String, Option<(String, u32)>)>,
}

/// A page that was copied because it was written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Copy {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    pub process: String,
    pub pid: u32,
    pub tid: u32,
    /// Which side of the fork wrote, as the vocabulary names it.
    pub writer: String,
    /// Since the fork that shared the page; `None` where that was not seen.
    pub since_fork_ns: Option<u64>,
    pub address: u64,
    pub mapping: String,
    /// How far from the mapping's beginning.
    pub offset_bytes: Option<u64>,
    /// The system call in which the kernel wrote; `None`: the program did.
    pub syscall: Option<String>,
    /// One copy in so many was told then: this one stands for so many.
    pub every: u32,
    /// Whether the stack goes to its outermost frame.
    pub is_whole: bool,
    /// Positions in [`CopyStacks::frames`], the innermost first.
    pub frames: Vec<usize>,
}

impl CopyStacks {
    /// The functions of a copy's stack, the innermost first, each with the file that has it.
    pub fn functions(&self, copy: &Copy) -> Vec<(&str, &str)> {
        let frames = copy.frames.iter().filter_map(|frame| self.frames.get(*frame));
        frames
            .flat_map(|frame| {
                frame.functions.iter().map(|(name, _)| (name.as_str(), frame.module.as_str()))
            })
            .collect()
    }

    /// The file's bytes. A copy stands for `page_bytes`.
    pub fn encode(&self, page_bytes: u64) -> Result<Vec<u8>> {
        let mut texts = Texts::default();
        let value = |texts: &mut Texts, kind: &str, unit: &str| ValueType {
            kind: texts.number(kind),
            unit: texts.number(unit),
        };
        let mut profile = Profile {
            sample_type: vec![
                value(&mut texts, "copies", "count"),
                value(&mut texts, "memory", "bytes"),
            ],
            ..Profile::default()
        };
        let (mut modules, mut functions) = (HashMap::new(), HashMap::new());
        for (at, frame) in self.frames.iter().enumerate() {
            let next = modules.len() as u64 + 1;
            let mapping_id = *modules.entry(&frame.module).or_insert(next);
            if mapping_id == next {
                let filename = texts.number(&frame.module);
                profile.mapping.push(Mapping { id: next, filename, has_functions: true });
            }
            let mut line = Vec::new();
            for (name, source) in &frame.functions {
                let (file, number) = source.clone().unwrap_or_default();
                let next = functions.len() as u64 + 1;
                let function_id = *functions.entry((name, file.clone())).or_insert(next);
                if function_id == next {
                    let (name, filename) = (texts.number(name), texts.number(&file));
                    let function = Function { id: next, name, system_name: name, filename };
                    profile.function.push(function);
                }
                line.push(Line { function_id, line: number.into() });
            }
            let (id, address) = (at as u64 + 1, frame.address);
            profile.location.push(Location { id, mapping_id, address, line });
        }
        for copy in &self.copies {
            let every = i64::from(copy.every);
            profile.sample.push(Sample {
                location_id: copy.frames.iter().map(|frame| *frame as u64 + 1).collect(),
                value: vec![every, every.saturating_mul(page_bytes.cast_signed())],
                label: labels(copy, &mut texts),
            });
        }
        profile.string_table = texts.all;
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        out.write_all(&profile.encode_to_vec())?;
        Ok(out.finish()?)
    }

    /// Reads the file of a run; `None` where the run has none.
    pub fn read(folder: &Path) -> Result<Option<CopyStacks>> {
        let path = folder.join(STACKS_FILE);
        let foreign = || crate::file::damaged(&path);
        if !path.try_exists().unwrap_or(false) {
            return Ok(None);
        }
        let bytes = crate::file::read_bytes(&path, MOST_BYTES).with_context(foreign)?;
        CopyStacks::decode(&bytes).with_context(foreign).map(Some)
    }

    /// Decodes the file's bytes, which may be anything.
    pub fn decode(bytes: &[u8]) -> Result<CopyStacks> {
        let mut unpacked = Vec::new();
        GzDecoder::new(bytes).take(MOST_BYTES + 1).read_to_end(&mut unpacked)?;
        ensure!(unpacked.len() as u64 <= MOST_BYTES, "it holds more than {MOST_BYTES} bytes");
        CopyStacks::of_profile(&unpacked)
    }

    /// The same of what is unpacked.
    pub fn of_profile(bytes: &[u8]) -> Result<CopyStacks> {
        let profile = Profile::decode(bytes)?;
        let text = |number: i64| -> Result<&str> {
            let at = usize::try_from(number)?;
            Ok(profile.string_table.get(at).context("a text that is not there")?)
        };
        let by_id = |ids: Vec<u64>| -> HashMap<u64, usize> {
            ids.into_iter().enumerate().map(|(at, id)| (id, at)).collect()
        };
        let functions = by_id(profile.function.iter().map(|function| function.id).collect());
        let modules = by_id(profile.mapping.iter().map(|mapping| mapping.id).collect());
        let locations = by_id(profile.location.iter().map(|location| location.id).collect());
        let mut stacks = CopyStacks::default();
        for location in &profile.location {
            let module = match modules.get(&location.mapping_id) {
                Some(at) => text(profile.mapping[*at].filename)?.to_owned(),
                None => String::new(),
            };
            let mut frame = Frame { module, address: location.address, functions: Vec::new() };
            for line in &location.line {
                let at =
                    functions.get(&line.function_id).context("a function that is not there")?;
                let function = &profile.function[*at];
                let file = text(function.filename)?;
                let number = u32::try_from(line.line)?;
                let source = (!file.is_empty()).then(|| (file.to_owned(), number));
                frame.functions.push((text(function.name)?.to_owned(), source));
            }
            stacks.frames.push(frame);
        }
        for sample in &profile.sample {
            let mut copy = Copy { every: 1, ..Copy::default() };
            for id in &sample.location_id {
                copy.frames.push(*locations.get(id).context("a place that is not there")?);
            }
            for label in &sample.label {
                set(&mut copy, text(label.key)?, text(label.str)?, label.num)?;
            }
            stacks.copies.push(copy);
        }
        if stacks.copies.iter().any(|copy| copy.every == 0) {
            bail!("a copy that stands for none");
        }
        Ok(stacks)
    }
}

fn labels(copy: &Copy, texts: &mut Texts) -> Vec<Label> {
    let mut all = Vec::new();
    let mut add = |key: &str, text: &str, num: Option<u64>, unit: &str| {
        all.push(Label {
            key: texts.number(key),
            str: texts.number(text),
            num: num.unwrap_or(0).cast_signed(),
            num_unit: texts.number(unit),
        });
    };
    add("process", &copy.process, None, "");
    add("pid", "", Some(copy.pid.into()), "");
    add("tid", "", Some(copy.tid.into()), "");
    add("writer", &copy.writer, None, "");
    add("time", "", Some(copy.time_ns), "nanoseconds");
    add("address", "", Some(copy.address), "");
    add("mapping", &copy.mapping, None, "");
    add("every", "", Some(copy.every.into()), "");
    add("whole", if copy.is_whole { "yes" } else { "no" }, None, "");
    if let Some(ns) = copy.since_fork_ns {
        add("since_fork", "", Some(ns), "nanoseconds");
    }
    if let Some(bytes) = copy.offset_bytes {
        add("offset", "", Some(bytes), "bytes");
    }
    if let Some(name) = &copy.syscall {
        add("syscall", name, None, "");
    }
    all
}

fn set(copy: &mut Copy, key: &str, text: &str, number: i64) -> Result<()> {
    let number = number.cast_unsigned();
    match key {
        "process" => text.clone_into(&mut copy.process),
        "pid" => copy.pid = u32::try_from(number)?,
        "tid" => copy.tid = u32::try_from(number)?,
        "writer" => text.clone_into(&mut copy.writer),
        "time" => copy.time_ns = number,
        "address" => copy.address = number,
        "mapping" => text.clone_into(&mut copy.mapping),
        "every" => copy.every = u32::try_from(number)?,
        "whole" => copy.is_whole = text == "yes",
        "since_fork" => copy.since_fork_ns = Some(number),
        "offset" => copy.offset_bytes = Some(number),
        "syscall" => copy.syscall = Some(text.to_owned()),
        _ => {}
    }
    Ok(())
}

/// The table of texts; the first is empty.
struct Texts {
    all: Vec<String>,
    known: HashMap<String, i64>,
}

impl Default for Texts {
    fn default() -> Self {
        Texts { all: vec![String::new()], known: HashMap::from([(String::new(), 0)]) }
    }
}

impl Texts {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let number = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> CopyStacks {
        let function = |name: &str| (name.to_owned(), None);
        let source = Some(("gc.c".to_owned(), 12));
        let frame = |module: &str, address, functions| Frame {
            module: module.to_owned(),
            address,
            functions,
        };
        let copy = Copy {
            time_ns: 7,
            process: "worker".to_owned(),
            pid: 4,
            tid: 5,
            writer: "child".to_owned(),
            since_fork_ns: Some(0),
            address: 0x7f00_0000_1234,
            mapping: "[heap]".to_owned(),
            offset_bytes: Some(0x1234),
            syscall: Some("read".to_owned()),
            every: 8,
            is_whole: true,
            frames: vec![1, 0],
        };
        let none = Copy { since_fork_ns: None, syscall: None, offset_bytes: None, ..copy.clone() };
        let inlined = vec![("visit".to_owned(), source), function("collect")];
        let frames = vec![frame("/bin/x", 16, vec![function("main")]), frame("", 9, inlined)];
        CopyStacks { frames, copies: vec![copy, none] }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = some().encode(4096).unwrap();
        assert_eq!(CopyStacks::decode(&bytes).unwrap(), some());
    }

    #[test]
    fn what_is_cut_or_foreign_is_an_error() {
        let bytes = some().encode(4096).unwrap();
        for at in 0..bytes.len() {
            assert!(CopyStacks::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
        assert!(CopyStacks::decode(b"no profile").is_err());
    }
}
