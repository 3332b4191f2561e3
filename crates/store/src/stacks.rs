// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies of pages with the stacks that made them, in pprof's format, which `go tool pprof`, speedscope
//! and others open: one sample a copy, its circumstances as labels.

use std::collections::{HashMap, HashSet};
use std::io::{Read as _, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prost::Message as _;

use crate::pprof::{self, Function, Label, Line, Location, Mapping, Sample, ValueType};

pub const STACKS_FILE: &str = "stacks.pb.gz";

/// No run has more, packed or not.
const MOST_BYTES: u64 = 256 << 20;
/// Nor takes more in memory; and that many bytes have the names of all stacks that differ.
const DECODED_MOST_BYTES: usize = 256 << 20;
/// Of one message: a stack of 512 frames with its labels has some KiB.
const MESSAGE_MOST_BYTES: usize = 64 << 10;
const TEXT_MOST_BYTES: usize = 16 << 10;
/// Functions of all stacks together: each of them is looked at.
const FUNCTIONS_MOST: usize = 200_000_000;

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
    pub process: Arc<str>,
    pub pid: u32,
    pub tid: u32,
    /// Which side of the fork wrote, as the vocabulary names it.
    pub writer: Arc<str>,
    /// Since the fork that shared the page; `None` where that was not seen.
    pub since_fork_ns: Option<u64>,
    pub address: u64,
    pub mapping: Arc<str>,
    /// How far from the mapping's beginning.
    pub offset_bytes: Option<u64>,
    /// The system call in which the kernel wrote; `None`: the program did.
    pub syscall: Option<Arc<str>>,
    /// One copy in so many was told then: this one stands for so many.
    pub every: u32,
    /// Whether the stack goes to its outermost frame.
    pub is_whole: bool,
    /// Positions in [`CopyStacks::frames`], the innermost first.
    pub frames: Box<[u32]>,
}

impl CopyStacks {
    /// The functions of a copy's stack, the innermost first, each with the file that has it.
    pub fn functions(&self, copy: &Copy) -> Vec<(&str, &str)> {
        let frames = copy.frames.iter().filter_map(|frame| self.frames.get(*frame as usize));
        frames
            .flat_map(|frame| {
                frame.functions.iter().map(|(name, _)| (name.as_str(), frame.module.as_str()))
            })
            .collect()
    }

    /// The file's bytes. A copy stands for `page_bytes`.
    pub fn encode(&self, page_bytes: u64) -> Result<Vec<u8>> {
        let mut texts = Texts::default();
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        for (kind, unit) in [("copies", "count"), ("memory", "bytes")] {
            let (kind, unit) = (texts.number(kind), texts.number(unit));
            add(&mut out, pprof::SAMPLE_TYPE, &ValueType { kind, unit }.encode_to_vec())?;
        }
        let (mut modules, mut functions) = (HashMap::new(), HashMap::new());
        for (at, frame) in self.frames.iter().enumerate() {
            let next = modules.len() as u64 + 1;
            let mapping_id = *modules.entry(&frame.module).or_insert(next);
            if mapping_id == next {
                let filename = texts.number(&frame.module);
                let mapping = Mapping { id: next, filename, has_functions: true };
                add(&mut out, pprof::MAPPING, &mapping.encode_to_vec())?;
            }
            let mut line = Vec::new();
            for (name, source) in &frame.functions {
                let (file, number) = source.clone().unwrap_or_default();
                let next = functions.len() as u64 + 1;
                let function_id = *functions.entry((name, file.clone())).or_insert(next);
                if function_id == next {
                    let (name, filename) = (texts.number(name), texts.number(&file));
                    let function = Function { id: next, name, system_name: name, filename };
                    add(&mut out, pprof::FUNCTION, &function.encode_to_vec())?;
                }
                line.push(Line { function_id, line: number.into() });
            }
            let (id, address) = (at as u64 + 1, frame.address);
            let location = Location { id, mapping_id, address, line };
            add(&mut out, pprof::LOCATION, &location.encode_to_vec())?;
        }
        for copy in &self.copies {
            let every = i64::from(copy.every);
            let sample = Sample {
                location_id: copy.frames.iter().map(|frame| u64::from(*frame) + 1).collect(),
                value: vec![every, every.saturating_mul(page_bytes.cast_signed())],
                label: labels(copy, &mut texts),
            };
            add(&mut out, pprof::SAMPLE, &sample.encode_to_vec())?;
        }
        for text in &texts.all {
            add(&mut out, pprof::TEXT, text.as_bytes())?;
        }
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

    /// The same of what is unpacked. What it becomes is counted before it is made.
    pub fn of_profile(bytes: &[u8]) -> Result<CopyStacks> {
        let mut room = DECODED_MOST_BYTES;
        let mut take = |bytes: usize| -> Result<()> {
            room = room.checked_sub(bytes).context("it takes more memory than any run's")?;
            Ok(())
        };
        let mut texts: Vec<Arc<str>> = Vec::new();
        let (mut functions, mut modules) = (HashMap::new(), HashMap::new());
        let (mut locations, mut samples) = (Vec::new(), Vec::new());
        for message in messages(bytes) {
            let (field, bytes) = message?;
            match field {
                pprof::TEXT => {
                    ensure!(bytes.len() <= TEXT_MOST_BYTES, "a text of {} bytes", bytes.len());
                    take(bytes.len() + 32)?;
                    texts.push(std::str::from_utf8(bytes)?.into());
                }
                pprof::FUNCTION => {
                    take(128)?;
                    let function = Function::decode(bytes)?;
                    functions.insert(function.id, function);
                }
                pprof::MAPPING => {
                    take(64)?;
                    let mapping = Mapping::decode(bytes)?;
                    modules.insert(mapping.id, mapping.filename);
                }
                pprof::LOCATION | pprof::SAMPLE => {
                    take(16)?;
                    ensure!(
                        bytes.len() <= MESSAGE_MOST_BYTES,
                        "a message of {} bytes",
                        bytes.len()
                    );
                    if field == pprof::SAMPLE { &mut samples } else { &mut locations }.push(bytes);
                }
                _ => {}
            }
        }
        let text = |number: i64| -> Result<&Arc<str>> {
            texts.get(usize::try_from(number)?).context("a text that is not there")
        };
        let mut stacks = CopyStacks::default();
        let mut numbers: HashMap<u64, u32> = HashMap::new();
        for bytes in locations {
            let location = Location::decode(bytes)?;
            let module = match modules.get(&location.mapping_id) {
                Some(filename) => text(*filename)?.to_string(),
                None => String::new(),
            };
            take(size_of::<Frame>() + 64 + module.len())?;
            let mut frame = Frame { module, address: location.address, functions: Vec::new() };
            for line in &location.line {
                let function =
                    functions.get(&line.function_id).context("a function that is not there")?;
                let (file, name) = (text(function.filename)?, text(function.name)?);
                take(size_of::<(String, Option<(String, u32)>)>() + file.len() + name.len())?;
                let number = u32::try_from(line.line)?;
                let source = (!file.is_empty()).then(|| (file.to_string(), number));
                frame.functions.push((name.to_string(), source));
            }
            numbers.insert(location.id, stacks.frames.len() as u32);
            stacks.frames.push(frame);
        }
        for bytes in samples {
            let sample = Sample::decode(bytes)?;
            let frames = sample.location_id.iter();
            let frames = frames.map(|id| numbers.get(id).copied()).collect::<Option<_>>();
            let frames: Box<[u32]> = frames.context("a place that is not there")?;
            take(size_of::<Copy>() + size_of_val(&*frames))?;
            let mut copy = Copy { every: 1, frames, ..Copy::default() };
            for label in &sample.label {
                set(&mut copy, text(label.key)?, text(label.str)?, label.num)?;
            }
            ensure!(copy.every > 0, "a copy that stands for none");
            stacks.copies.push(copy);
        }
        stacks.are_bounded()?;
        Ok(stacks)
    }

    /// Stacks are looked at function by function, and written with their names where they differ.
    fn are_bounded(&self) -> Result<()> {
        let of = |frames: &[u32], count: fn(&Frame) -> usize| -> usize {
            frames.iter().map(|frame| count(&self.frames[*frame as usize])).sum()
        };
        let stacks = self.copies.iter().map(|copy| &copy.frames);
        let functions: usize =
            stacks.clone().map(|of_one| of(of_one, |at| at.functions.len())).sum();
        ensure!(functions <= FUNCTIONS_MOST, "its stacks have {functions} functions");
        let names = |at: &Frame| at.functions.iter().map(|(name, _)| name.len() + 1).sum::<usize>();
        let different: HashSet<_> = stacks.collect();
        let bytes: usize = different.into_iter().map(|frames| of(frames, names)).sum();
        ensure!(bytes <= DECODED_MOST_BYTES, "the names of its stacks have {bytes} bytes");
        Ok(())
    }
}

/// Adds an encoded message or a text to a profile, whose fields have numbers below 16: they take one byte.
fn add(out: &mut impl Write, field: u8, message: &[u8]) -> Result<()> {
    let mut head = vec![field << 3 | 2];
    prost::encode_length_delimiter(message.len(), &mut head)?;
    out.write_all(&head)?;
    Ok(out.write_all(message)?)
}

/// The messages of a profile with the numbers of their fields. What is no message is left out, to the first thing that
/// is none of protobuf's.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u8, &[u8])>> {
    std::iter::from_fn(move || {
        while !bytes.is_empty() {
            match next(&mut bytes) {
                Ok(Some(message)) => return Some(Ok(message)),
                Ok(None) => {}
                Err(error) => {
                    bytes = &[];
                    return Some(Err(error));
                }
            }
        }
        None
    })
}

fn next<'a>(bytes: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>> {
    const NUMBER: usize = 0;
    const MESSAGE: usize = 2;
    let key = prost::decode_length_delimiter(&mut *bytes)?;
    let length = prost::decode_length_delimiter(&mut *bytes)?;
    match key & 7 {
        // A number stands where a message has its length.
        NUMBER => Ok(None),
        MESSAGE => {
            let (message, rest) = bytes.split_at_checked(length).context("it is cut")?;
            *bytes = rest;
            Ok(u8::try_from(key >> 3).ok().map(|field| (field, message)))
        }
        kind => anyhow::bail!("a field of kind {kind}"),
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

fn set(copy: &mut Copy, key: &str, text: &Arc<str>, number: i64) -> Result<()> {
    let number = number.cast_unsigned();
    match key {
        "process" => copy.process = Arc::clone(text),
        "pid" => copy.pid = u32::try_from(number)?,
        "tid" => copy.tid = u32::try_from(number)?,
        "writer" => copy.writer = Arc::clone(text),
        "time" => copy.time_ns = number,
        "address" => copy.address = number,
        "mapping" => copy.mapping = Arc::clone(text),
        "every" => copy.every = u32::try_from(number)?,
        "whole" => copy.is_whole = **text == *"yes",
        "since_fork" => copy.since_fork_ns = Some(number),
        "offset" => copy.offset_bytes = Some(number),
        "syscall" => copy.syscall = Some(Arc::clone(text)),
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
            process: "worker".into(),
            pid: 4,
            tid: 5,
            writer: "child".into(),
            since_fork_ns: Some(0),
            address: 0x7f00_0000_1234,
            mapping: "[heap]".into(),
            offset_bytes: Some(0x1234),
            syscall: Some("read".into()),
            every: 8,
            is_whole: true,
            frames: [1, 0].into(),
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
    fn what_would_become_more_than_any_run_is_refused() {
        let of = |parts: &[(u8, &[u8], usize)]| {
            let mut bytes = Vec::new();
            for (field, message, times) in parts {
                (0..*times).for_each(|_| add(&mut bytes, *field, message).unwrap());
            }
            format!("{:#}", CopyStacks::of_profile(&bytes).unwrap_err())
        };
        let text = vec![b'x'; TEXT_MOST_BYTES];
        let function = Function { id: 1, name: 1, system_name: 1, filename: 0 }.encode_to_vec();
        let line = vec![Line { function_id: 1, line: 0 }; 1000];
        let location = Location { id: 1, mapping_id: 0, address: 0, line }.encode_to_vec();
        let named =
            [(pprof::TEXT, &b""[..], 1), (pprof::TEXT, &text, 1), (pprof::FUNCTION, &function, 1)];
        for (parts, said) in [
            (vec![(pprof::SAMPLE, &b""[..], 3_000_000)], "more memory"),
            (vec![(pprof::TEXT, &b""[..], 9_000_000)], "more memory"),
            (vec![(pprof::TEXT, &[b'x'; TEXT_MOST_BYTES + 1], 1)], "a text of"),
            (vec![(pprof::SAMPLE, &[0; MESSAGE_MOST_BYTES + 1], 1)], "a message of"),
            ([&named[..], &[(pprof::LOCATION, &location, 20)]].concat(), "more memory"),
        ] {
            let error = of(&parts);
            assert!(error.contains(said), "{said}: {error}");
        }
        // Few names, which many stacks have.
        let mut stacks = some();
        stacks.frames[0].functions = vec![("x".repeat(TEXT_MOST_BYTES), None)];
        let stack = |at: u32| {
            let digit = |bit: u32| at >> bit & 1;
            Copy {
                frames: (0..500).map(|bit| digit(bit % 7)).collect(),
                ..stacks.copies[0].clone()
            }
        };
        stacks.copies = (0..128).map(stack).collect();
        let error = CopyStacks::decode(&stacks.encode(4096).unwrap()).unwrap_err().to_string();
        assert!(error.contains("names of its stacks"), "{error}");
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
