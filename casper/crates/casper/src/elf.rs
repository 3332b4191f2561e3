// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ELF files that others made. Nothing is mapped, since a mapping of a file that its owner cuts is a SIGBUS; no more is
//! read than a [`Budget`] allows; and nothing but a regular file is opened.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::read::elf::NoteIterator;
use object::{CompressedData, CompressionFormat, LittleEndian as LE, Pod, pod};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};

/// Section and program headers, and the names of sections: no real file has more.
const HEADERS_MOST_BYTES: u64 = 1 << 20;

/// Bytes of files that may be in memory at once.
#[derive(Debug)]
pub struct Budget {
    file_bytes: u64,
    left_bytes: AtomicU64,
    refused: AtomicU64,
}

impl Budget {
    /// So many bytes of each file, and of all files together.
    pub fn new(file_bytes: u64, all_bytes: u64) -> Arc<Budget> {
        let left_bytes = AtomicU64::new(all_bytes);
        Arc::new(Budget { file_bytes, left_bytes, refused: AtomicU64::new(0) })
    }

    /// How often something was not read because it was too large.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> Option<()> {
        let left = |left: u64| left.checked_sub(bytes);
        self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).ok().map(drop)
    }
}

/// An open file, of which the headers were read. What was read of it counts until it is dropped.
#[derive(Debug)]
pub struct Elf {
    file: File,
    entry: u64,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    held_bytes: AtomicU64,
    budget: Arc<Budget>,
}

/// A part of the file that is mapped.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Where it is mapped, as the file says.
    pub address: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Its length in the file.
    pub bytes: u64,
    /// Whether it holds code.
    pub is_executable: bool,
}

/// A section's header.
#[derive(Debug)]
pub struct Section {
    name: Box<[u8]>,
    /// Where it is mapped, as the file says.
    pub address: u64,
    /// Its length in the file.
    pub bytes: u64,
    offset: u64,
    link: u32,
    is_compressed: bool,
}

impl Elf {
    /// `None` if this is no ELF file of 64 bits, little-endian, or one with headers that no real file has.
    pub fn read(file: File, budget: &Arc<Budget>) -> Option<Elf> {
        let budget = Arc::clone(budget);
        let (segments, sections) = (Vec::new(), Vec::new());
        let held_bytes = AtomicU64::new(0);
        let mut elf = Elf { file, entry: 0, segments, sections, held_bytes, budget };
        let [header]: [FileHeader64<LE>; 1] = elf.table(0, 1)?.try_into().ok()?;
        let ident = &header.e_ident;
        if ident.magic != elf::ELFMAG
            || ident.class != elf::ELFCLASS64
            || ident.data != elf::ELFDATA2LSB
        {
            return None;
        }
        elf.entry = header.e_entry.get(LE);
        let count = header.e_phnum.get(LE).into();
        let segments: Vec<ProgramHeader64<LE>> = elf.table(header.e_phoff.get(LE), count)?;
        let is_loaded = |of: &&ProgramHeader64<LE>| of.p_type.get(LE) == elf::PT_LOAD;
        elf.segments = segments.iter().filter(is_loaded).map(Segment::of).collect();
        let count = header.e_shnum.get(LE).into();
        let sections: Vec<SectionHeader64<LE>> = elf.table(header.e_shoff.get(LE), count)?;
        let names = sections.get(usize::from(header.e_shstrndx.get(LE).0));
        let names = names.filter(|of| of.sh_size.get(LE) <= HEADERS_MOST_BYTES);
        let names = match names {
            Some(of) => elf.bytes_at(of.sh_offset.get(LE), of.sh_size.get(LE))?,
            None => Arc::default(),
        };
        elf.sections = sections.iter().map(|of| Section::of(of, &names)).collect();
        Some(elf)
    }

    fn table<T: Pod + Copy>(&self, offset: u64, count: u64) -> Option<Vec<T>> {
        let bytes = count.checked_mul(size_of::<T>() as u64)?;
        let bytes = self.bytes_at(offset, (bytes <= HEADERS_MOST_BYTES).then_some(bytes)?)?;
        Some(pod::slice_from_bytes(&bytes, count as usize).ok()?.0.to_vec())
    }

    /// Where the program begins; 0 of a library.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// The parts that are mapped.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The first section of that name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| *section.name == *name.as_bytes())
    }

    /// NT_GNU_BUILD_ID, empty where there is none.
    pub fn build_id(&self) -> Vec<u8> {
        let read = || {
            let section = self.section(".note.gnu.build-id")?;
            let bytes = self.bytes((section.bytes <= 4096).then_some(section)?)?;
            let mut notes = NoteIterator::<FileHeader64<LE>>::new(LE, 4, &bytes).ok()?;
            let is_it = |note: &object::read::elf::Note<'_, FileHeader64<LE>>| {
                note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID
            };
            Some(std::iter::from_fn(|| notes.next().ok()?).find(is_it)?.desc().to_vec())
        };
        read().unwrap_or_default()
    }

    /// The section that a symbol table has its names in.
    pub fn linked(&self, section: &Section) -> Option<&Section> {
        self.sections.get(section.link as usize)
    }

    /// A section as it is in the file; `None` where it is larger than may be read.
    pub fn bytes(&self, section: &Section) -> Option<Arc<[u8]>> {
        self.bytes_at(section.offset, section.bytes)
    }

    /// The same, unpacked if it is compressed.
    pub fn unpacked(&self, section: &Section) -> Option<Arc<[u8]>> {
        let bytes = self.bytes(section)?;
        if !section.is_compressed {
            return Some(bytes);
        }
        let (head, data): (&elf::CompressionHeader64<LE>, _) = pod::from_bytes(&bytes).ok()?;
        let uncompressed_size = head.ch_size.get(LE);
        self.hold(uncompressed_size)?;
        let format = match head.ch_type.get(LE) {
            elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
            elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
            _ => return None,
        };
        let packed = CompressedData { format, data, uncompressed_size };
        Some(packed.decompress().ok()?.into_owned().into())
    }

    fn bytes_at(&self, offset: u64, bytes: u64) -> Option<Arc<[u8]>> {
        if bytes == 0 {
            return Some(Arc::default());
        }
        self.hold(bytes)?;
        let mut read: Arc<[u8]> = std::iter::repeat_n(0, usize::try_from(bytes).ok()?).collect();
        let to = Arc::get_mut(&mut read).expect("nobody else has it yet");
        self.file.read_exact_at(to, offset).ok()?;
        Some(read)
    }

    /// Counts bytes before they are allocated.
    fn hold(&self, bytes: u64) -> Option<()> {
        let held = self.held_bytes.load(Ordering::Relaxed);
        let fits = held.checked_add(bytes).is_some_and(|sum| sum <= self.budget.file_bytes);
        if !fits || self.budget.take(bytes).is_none() {
            self.budget.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(())
    }
}

impl Drop for Elf {
    fn drop(&mut self) {
        let held_bytes = self.held_bytes.load(Ordering::Relaxed);
        self.budget.left_bytes.fetch_add(held_bytes, Ordering::Relaxed);
    }
}

impl Segment {
    fn of(header: &ProgramHeader64<LE>) -> Segment {
        Segment {
            address: header.p_vaddr.get(LE),
            offset: header.p_offset.get(LE),
            bytes: header.p_filesz.get(LE),
            is_executable: header.p_flags.get(LE).contains(elf::PF_X),
        }
    }
}

impl Section {
    /// Where it is mapped, as the file says.
    pub fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.bytes)
    }

    fn of(header: &SectionHeader64<LE>, names: &[u8]) -> Section {
        let name = names.get(header.sh_name.get(LE) as usize..).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        // Longer ones are none that anybody looks for.
        let name = &name[..name.len().min(32)];
        let is_in_file = header.sh_type.get(LE) != elf::SHT_NOBITS;
        Section {
            name: name.into(),
            address: header.sh_addr.get(LE),
            bytes: if is_in_file { header.sh_size.get(LE) } else { 0 },
            offset: header.sh_offset.get(LE),
            link: header.sh_link.get(LE),
            is_compressed: header.sh_flags.get(LE).contains(elf::SHF_COMPRESSED),
        }
    }
}

/// Opens a regular file at a path that others chose. Opening a device does something, and opening a FIFO waits: what it
/// is, is asked before. Below `root`, where that is given, the path leads nowhere else, and its end is no link.
pub fn open_regular(root: Option<&File>, path: &Path) -> Option<File> {
    let (flags, mode) = (OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let place = match root {
        Some(root) => {
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            openat2(root, path, flags | OFlags::NOFOLLOW, mode, resolve).ok()?
        }
        None => rustix::fs::open(path, flags, mode).ok()?,
    };
    let kind = rustix::fs::fstat(place.as_fd()).ok()?.st_mode;
    if FileType::from_raw_mode(kind) != FileType::RegularFile {
        return None;
    }
    let itself = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(itself, flags, mode).ok().map(File::from)
}
