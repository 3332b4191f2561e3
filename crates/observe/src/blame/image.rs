// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that programs have mapped to execute: what unwinds them, and where their functions begin.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cowlab_machine::mappings::Mapping;
use object::{Object, ObjectSection, ObjectSegment, ReadCache};
use rustix::fs::{FileType, Mode, OFlags};

/// No real program has so much for unwinding; a file that says so is not read.
const SECTION_MOST_BYTES: u64 = 64 << 20;

/// The bytes of a section, shared by all who unwind with it.
#[derive(Debug, Clone, Default)]
pub struct Bytes(Arc<[u8]>);

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A file that is mapped. Addresses are the file's own (p_vaddr).
#[derive(Debug)]
pub struct Image {
    pub path: String,
    /// NT_GNU_BUILD_ID, empty where there is none.
    pub build_id: Vec<u8>,
    /// Where the program begins; 0 of a library.
    entry: u64,
    /// Open, so that its functions can be told after it was deleted or its process ended.
    pub(crate) file: File,
    pub(crate) text: Option<Range<u64>>,
    pub(crate) got: Option<Range<u64>>,
    pub(crate) eh_frame: Option<(Range<u64>, Bytes)>,
    pub(crate) eh_frame_hdr: Option<(Range<u64>, Bytes)>,
    pub(crate) debug_frame: Option<Bytes>,
    segments: Vec<Segment>,
    /// Where functions begin, sorted.
    starts: Vec<u64>,
    signal_returns: Vec<u64>,
}

/// What of the file is mapped where.
#[derive(Debug)]
struct Segment {
    file: Range<u64>,
    address: u64,
}

impl Image {
    /// Reads what unwinding needs; `None` where it is no ELF file.
    pub fn read(path: String, file: File) -> Option<Image> {
        let cache = ReadCache::new(file.try_clone().ok()?);
        let elf = object::File::parse(&cache).ok()?;
        let range = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let bytes = |name: &str| {
            let section = elf.section_by_name(name)?;
            let is_sound = section.size() <= SECTION_MOST_BYTES;
            // None of these is compressed; one that is could stand for any number of bytes.
            is_sound.then(|| section.data().ok())?.map(|data| Bytes(data.into()))
        };
        let both = |name: &str| Some((range(name)?, bytes(name)?));
        let segments = elf.segments().map(|segment| {
            let (start, bytes) = segment.file_range();
            Segment { file: start..start.saturating_add(bytes), address: segment.address() }
        });
        let eh_frame_hdr = both(".eh_frame_hdr");
        let starts = eh_frame_hdr.as_ref().and_then(|(range, bytes)| starts(range.start, bytes));
        let image = Image {
            build_id: elf.build_id().ok().flatten().unwrap_or_default().to_vec(),
            entry: elf.entry(),
            text: range(".text"),
            got: range(".got"),
            eh_frame: both(".eh_frame"),
            eh_frame_hdr,
            debug_frame: bytes(".debug_frame"),
            segments: segments.collect(),
            starts: starts.unwrap_or_default(),
            signal_returns: signal_returns(&path, elf.section_by_name(".text")),
            path,
            file,
        };
        Some(image)
    }

    /// What to take from an address of a process to have the file's, by one of its mappings.
    pub(crate) fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let offset = mapping.offset_bytes;
        let page = |offset: u64| offset & !0xfff;
        let holds =
            |segment: &&Segment| (page(segment.file.start)..segment.file.end).contains(&offset);
        let segment = self.segments.iter().find(holds)?;
        let address = segment.address.wrapping_add(offset).wrapping_sub(segment.file.start);
        Some(mapping.range.start.wrapping_sub(address))
    }

    /// Where the function begins that has an address, by the unwind tables.
    pub fn function_start(&self, address: u64) -> Option<u64> {
        let after = self.starts.partition_point(|start| *start <= address);
        self.starts.get(after.checked_sub(1)?).copied()
    }

    /// Whether an address is in the code that a program begins with, which nothing describes: it sets
    /// up the arguments of the C library's beginning, and calls that.
    pub fn is_entry(&self, address: u64) -> bool {
        const ENTRY_BYTES: u64 = 0x40;
        self.entry != 0 && address.checked_sub(self.entry).is_some_and(|at| at < ENTRY_BYTES)
    }

    /// Whether handlers of signals return to an address.
    pub(crate) fn returns_from_signal(&self, address: u64) -> bool {
        self.signal_returns.contains(&address)
    }

    /// The file's name without its folders.
    pub fn short_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// A path by which it can be opened again as long as it lives.
    pub(crate) fn reopen(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

/// What a C library has handlers of signals return to: `mov $SYS_rt_sigreturn, %rax; syscall`. Its unwind
/// tables say so by an expression, which framehop does not evaluate.
fn signal_returns<'a>(path: &str, text: Option<impl ObjectSection<'a>>) -> Vec<u64> {
    const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let file = path.rsplit('/').next().unwrap_or(path);
    let is_library = ["libc.so", "libc-2", "ld-musl"].iter().any(|name| file.starts_with(name));
    let Some(text) = text.filter(|text| is_library && text.size() <= SECTION_MOST_BYTES) else {
        return Vec::new();
    };
    let bytes = text.data().unwrap_or_default();
    let places = bytes.windows(CODE.len()).enumerate().filter(|(_, code)| *code == CODE);
    places.map(|(at, _)| text.address().wrapping_add(at as u64)).collect()
}

/// The table of `.eh_frame_hdr` (Linux Standard Base, 10.6.2): where functions begin, in its usual
/// form: offsets of 4 bytes from the section, sorted.
fn starts(section: u64, bytes: &[u8]) -> Option<Vec<u64>> {
    const VERSION: u8 = 1;
    const RELATIVE_TO_SECTION_SDATA4: u8 = 0x3b;
    const COUNT_UDATA4: u8 = 0x03;
    let head: &[u8] = bytes.get(..12)?;
    if head[0] != VERSION || head[2] != COUNT_UDATA4 || head[3] != RELATIVE_TO_SECTION_SDATA4 {
        return None;
    }
    let count = u32::from_le_bytes(head[8..12].try_into().ok()?) as usize;
    let table = bytes.get(12..12 + count.checked_mul(8)?)?;
    let start = |entry: &[u8]| {
        let offset = i32::from_le_bytes(entry[..4].try_into().expect("four bytes"));
        section.wrapping_add_signed(offset.into())
    };
    Some(table.chunks_exact(8).map(start).collect())
}

/// All files that were seen, each read once.
#[derive(Debug, Default)]
pub struct Images {
    known: HashMap<(String, u64), Option<Arc<Image>>>,
}

impl Images {
    /// The file of a mapping of process `pid`; `None` where it cannot be read or is no ELF file.
    pub fn of(&mut self, pid: i32, mapping: &Mapping) -> Option<Arc<Image>> {
        let name = mapping.name.as_deref().filter(|_| mapping.inode != 0)?;
        let key = (name.to_owned(), mapping.inode);
        let read = || {
            let path = name.strip_suffix(" (deleted)").unwrap_or(name);
            Image::read(path.to_owned(), open(pid, mapping, path)?).map(Arc::new)
        };
        self.known.entry(key).or_insert_with(read).clone()
    }
}

/// The file itself, which may be deleted or seen by its process alone; else what stands at its path,
/// if it is the same one.
fn open(pid: i32, mapping: &Mapping, path: &str) -> Option<File> {
    let Range { start, end } = &mapping.range;
    let itself = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    let there = format!("/proc/{pid}/root{path}");
    open_file(Path::new(&itself), OFlags::empty()).or_else(|| {
        let found = open_file(Path::new(&there), OFlags::NOFOLLOW)?;
        (found.metadata().ok()?.ino() == mapping.inode).then_some(found)
    })
}

/// A path that others chose may be anything, and opening a device does something: what it is, is asked
/// before it is opened.
pub(crate) fn open_file(path: &Path, more: OFlags) -> Option<File> {
    let place =
        rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | more, Mode::empty()).ok()?;
    let kind = rustix::fs::fstat(&place).ok()?.st_mode;
    if FileType::from_raw_mode(kind) != FileType::RegularFile {
        return None;
    }
    File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_begin_where_the_table_says() {
        let mut bytes = vec![1, 0x1b, 3, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        for (start, entry) in [(-0x100_i32, 8_i32), (0x20, 16)] {
            bytes.extend(start.to_le_bytes());
            bytes.extend(entry.to_le_bytes());
        }
        assert_eq!(starts(0x2000, &bytes), Some(vec![0x1f00, 0x2020]));
        assert_eq!(starts(0x2000, &bytes[..27]), None, "cut");
        bytes[3] = 0x1b;
        assert_eq!(starts(0x2000, &bytes), None, "another form");
    }
}
