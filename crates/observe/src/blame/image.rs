// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that programs have mapped to execute: what unwinds them, and where their functions begin.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use cowlab_casper::elf::{Budget, Elf, Section, open_regular};
use cowlab_machine::mappings::Mapping;
use framehop::x86_64::UnwinderX86_64;
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
use gimli_of_framehop::BaseAddresses;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::blame::tables::Tables;

/// What is kept of one file, and of all files.
const FILE_MOST_BYTES: u64 = 64 << 20;
const FILES_MOST_BYTES: u64 = 96 << 20;
const FILES_MOST: usize = 4096;
/// Tables without an index: one is made of them, which takes as much again.
const UNINDEXED_MOST_BYTES: u64 = 8 << 20;
/// The names of mappings, each once.
const NAMES_MOST_BYTES: usize = 8 << 20;

/// A file that is mapped. Addresses are the file's own (p_vaddr).
pub struct Image {
    pub path: String,
    /// NT_GNU_BUILD_ID, empty where there is none.
    pub build_id: Vec<u8>,
    /// Open, so that its functions can be told after it was deleted or its process ended.
    elf: Elf,
    tables: Option<Tables>,
    /// Unwinds at the file's own addresses, so that all processes share it.
    pub(crate) unwinder: UnwinderX86_64<Arc<[u8]>>,
    header_address: u64,
    signal_returns: Vec<u64>,
}

impl Image {
    /// Reads what unwinding needs; `None` where it is no ELF file of 64 bits, or too large.
    pub fn read(path: String, file: File, budget: &Arc<Budget>) -> Option<Image> {
        let elf = Elf::read(file, budget)?;
        let address = |name| elf.section(name).map_or(0, |section: &Section| section.address);
        let bases = BaseAddresses::default()
            .set_eh_frame(address(".eh_frame"))
            .set_eh_frame_hdr(address(".eh_frame_hdr"))
            .set_text(address(".text"))
            .set_got(address(".got"));
        let bytes = |name| elf.section(name).and_then(|section| elf.bytes(section));
        let header = bytes(".eh_frame_hdr");
        let frame = elf.section(".eh_frame").filter(|section| {
            section.bytes > 0 && (header.is_some() || section.bytes <= UNINDEXED_MOST_BYTES)
        });
        let tables = frame.and_then(|section| elf.bytes(section));
        let tables = tables.map(|frame| Tables { frame, header, bases });
        let tables = tables.filter(|of| of.header.is_some() || of.are_all_sound());
        let mut unwinder = UnwinderX86_64::new();
        if let Some(Tables { frame, header, .. }) = &tables {
            let range = |name| elf.section(name).map(Section::range);
            let sections = ExplicitModuleSectionInfo {
                text_svma: range(".text"),
                got_svma: range(".got"),
                eh_frame_svma: range(".eh_frame"),
                eh_frame: Some(Arc::clone(frame)),
                eh_frame_hdr_svma: range(".eh_frame_hdr"),
                eh_frame_hdr: header.clone(),
                ..Default::default()
            };
            unwinder.add_module(Module::new(String::new(), 0..u64::MAX, 0, sections));
        }
        Some(Image {
            build_id: elf.build_id(),
            tables,
            unwinder,
            header_address: address(".eh_frame_hdr"),
            signal_returns: signal_returns(&path, &elf),
            path,
            elf,
        })
    }

    /// What to take from an address of a process to have the file's, by one of its mappings.
    pub(crate) fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let offset = mapping.offset_bytes;
        let page = |offset: u64| offset & !0xfff;
        let mut segments = self.elf.segments().iter();
        let segment = segments
            .find(|of| (page(of.offset)..of.offset.saturating_add(of.bytes)).contains(&offset))?;
        let address = segment.address.wrapping_add(offset).wrapping_sub(segment.offset);
        Some(mapping.range.start.wrapping_sub(address))
    }

    /// Where the function begins that has an address, by the table of `.eh_frame_hdr` in its usual form.
    pub fn function_start(&self, address: u64) -> Option<u64> {
        let header = self.tables.as_ref()?.header.as_ref()?;
        start(self.header_address, header, address)
    }

    /// Whether an address is in the code that a program begins with, which nothing describes: it sets
    /// up the arguments of the C library's beginning, and calls that.
    pub fn is_entry(&self, address: u64) -> bool {
        const ENTRY_BYTES: u64 = 0x40;
        let entry = self.elf.entry();
        entry != 0 && address.checked_sub(entry).is_some_and(|at| at < ENTRY_BYTES)
    }

    /// Whether what unwinds an address does so in bounded time.
    pub(crate) fn is_sound(&self, address: u64) -> bool {
        self.tables.as_ref().is_none_or(|tables| tables.is_sound(address))
    }

    /// Whether handlers of signals return to an address.
    pub(crate) fn returns_from_signal(&self, address: u64) -> bool {
        self.signal_returns.contains(&address)
    }

    /// The file's name without its folders.
    pub fn short_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub(crate) fn file(&self) -> &File {
        self.elf.file()
    }
}

/// What a C library has handlers of signals return to: `mov $SYS_rt_sigreturn, %rax; syscall`. Its unwind
/// tables say so by an expression, which framehop does not evaluate.
fn signal_returns(path: &str, elf: &Elf) -> Vec<u64> {
    const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    const MOST: usize = 16;
    let file = path.rsplit('/').next().unwrap_or(path);
    let is_library = ["libc.so", "libc-2", "ld-musl"].iter().any(|name| file.starts_with(name));
    let text = elf.section(".text").filter(|_| is_library);
    let Some((text, bytes)) = text.and_then(|text| Some((text, elf.bytes(text)?))) else {
        return Vec::new();
    };
    let places = bytes.windows(CODE.len()).enumerate().filter(|(_, code)| *code == CODE);
    places.map(|(at, _)| text.address.wrapping_add(at as u64)).take(MOST).collect()
}

/// The last beginning of a function up to an address, by the table of `.eh_frame_hdr` (Linux Standard Base, 10.6.2) in
/// its usual form: offsets of 4 bytes from the section, sorted.
fn start(section: u64, bytes: &[u8], address: u64) -> Option<u64> {
    const VERSION: u8 = 1;
    const RELATIVE_TO_SECTION_SDATA4: u8 = 0x3b;
    const COUNT_UDATA4: u8 = 0x03;
    let head: &[u8] = bytes.get(..12)?;
    if head[0] != VERSION || head[2] != COUNT_UDATA4 || head[3] != RELATIVE_TO_SECTION_SDATA4 {
        return None;
    }
    let count = u32::from_le_bytes(head[8..12].try_into().ok()?) as usize;
    let (table, _) = bytes.get(12..12 + count.checked_mul(8)?)?.as_chunks::<8>();
    let start = |[a, b, c, d, ..]: &[u8; 8]| {
        section.wrapping_add_signed(i32::from_le_bytes([*a, *b, *c, *d]).into())
    };
    let after = table.partition_point(|entry| start(entry) <= address);
    table.get(after.checked_sub(1)?).map(start)
}

/// What says that a file is the same one: device, inode and the time of its last change.
type Identity = (u64, u64, i64, i64);

/// All files that were seen, each read once, and names of mappings, each kept once.
pub struct Images {
    known: FxHashMap<Identity, Option<Arc<Image>>>,
    names: FxHashSet<Arc<str>>,
    names_bytes: usize,
    pub budget: Arc<Budget>,
    /// Processes of which not all mappings or files were read.
    pub cut: u64,
}

impl Default for Images {
    fn default() -> Self {
        let budget = Budget::new(FILE_MOST_BYTES, FILES_MOST_BYTES);
        let (known, names) = (FxHashMap::default(), FxHashSet::default());
        Images { known, names, names_bytes: 0, budget, cut: 0 }
    }
}

impl Images {
    pub fn lock(images: &Mutex<Images>) -> MutexGuard<'_, Images> {
        images.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The file of a mapping of process `pid`; `None` where it cannot be read or is no ELF file. Nothing is locked while
    /// it is read.
    pub fn of(images: &Mutex<Images>, pid: i32, mapping: &Mapping) -> Option<Arc<Image>> {
        let name = mapping.name.as_deref().filter(|_| mapping.inode != 0)?;
        let path = name.strip_suffix(" (deleted)").unwrap_or(name);
        let file = open(pid, mapping, path)?;
        let of = file.metadata().ok()?;
        let identity = (of.dev(), of.ino(), of.ctime(), of.ctime_nsec());
        let (known, budget, count) = {
            let all = Images::lock(images);
            (all.known.get(&identity).cloned(), Arc::clone(&all.budget), all.known.len())
        };
        known.unwrap_or_else(|| {
            let is_room = count < FILES_MOST;
            let image = is_room.then(|| Image::read(path.to_owned(), file, &budget)).flatten();
            let image = image.map(Arc::new);
            if is_room {
                Images::lock(images).known.insert(identity, image.clone());
            }
            image
        })
    }

    pub fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let is_room = self.names_bytes + name.len() <= NAMES_MOST_BYTES;
        let name: Arc<str> = if is_room { name.into() } else { "[unnamed]".into() };
        // With what keeping it takes.
        self.names_bytes += if is_room { name.len() + 64 } else { 0 };
        self.names.insert(Arc::clone(&name));
        name
    }
}

/// The file itself, which may be deleted or seen by its process alone; else what stands at its path,
/// if it is the same one.
fn open(pid: i32, mapping: &Mapping, path: &str) -> Option<File> {
    let Range { start, end } = &mapping.range;
    let itself = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    open_regular(None, Path::new(&itself)).or_else(|| {
        let found = open_inside(pid, path)?;
        (found.metadata().ok()?.ino() == mapping.inode).then_some(found)
    })
}

/// A regular file at a path that process `pid` chose, as that process sees it.
pub(crate) fn open_inside(pid: i32, path: &str) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty()).ok()?;
    open_regular(Some(&File::from(root)), Path::new(path))
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
        assert_eq!(start(0x2000, &bytes, 0x1eff), None);
        assert_eq!(start(0x2000, &bytes, 0x201f), Some(0x1f00));
        assert_eq!(start(0x2000, &bytes, 0x2020), Some(0x2020));
        assert_eq!(start(0x2000, &bytes[..27], 0x2020), None, "cut");
        bytes[3] = 0x1b;
        assert_eq!(start(0x2000, &bytes, 0x2020), None, "another form");
    }

    #[test]
    fn names_of_mappings_are_kept_once_and_only_so_many() {
        let mut images = Images::default();
        assert!(Arc::ptr_eq(&images.name("/srv/heap"), &images.name("/srv/heap")));
        let long = "x".repeat(4000);
        for at in 0..10_000 {
            images.name(&format!("{at}{long}"));
        }
        assert!(images.names.iter().map(|name| name.len()).sum::<usize>() <= NAMES_MOST_BYTES);
        assert_eq!(&*images.name(&long), "[unnamed]");
    }
}
