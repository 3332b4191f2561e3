// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mappings of a process: /proc/PID/maps, or smaps where sizes and flags are wanted
//! (proc_pid_maps(5), proc_pid_smaps(5)), and the sums of smaps_rollup. Addresses and sizes in bytes.
//!
//! procfs-core's decoder takes four times as long for smaps (180 us of 30 mappings, 260 us being the
//! kernel's) and slices into names, which a program may choose.

use std::ops::Range;
use std::path::Path;

use cowlab_schema::footprint;

use crate::process::Target;
use crate::process::error::ProcessError;
use crate::root::{ReadError, Root};

/// The kind of a mapping, by Smith and Maguire's (1988) segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Heap,
    /// The first thread's; other threads' stacks are anonymous mappings.
    Stack,
    /// Private memory of no file: mmap, large malloc blocks, threads' stacks.
    Anonymous,
    /// The writable private memory of a program or library: its data segment, .bss, and what becomes
    /// read-only after relocation.
    Data,
    /// Any other mapping of a file, and all shared memory.
    Named,
    /// The kernel's own: vdso, vvar, vsyscall.
    Special,
}

impl Kind {
    /// In the order of tables.
    pub const ALL: [Kind; 6] =
        [Kind::Heap, Kind::Stack, Kind::Anonymous, Kind::Data, Kind::Named, Kind::Special];

    pub fn mapping(self) -> footprint::Mapping {
        match self {
            Kind::Heap => footprint::Mapping::Heap,
            Kind::Stack => footprint::Mapping::Stack,
            Kind::Anonymous => footprint::Mapping::Anonymous,
            Kind::Data => footprint::Mapping::Data,
            Kind::Named => footprint::Mapping::Named,
            Kind::Special => footprint::Mapping::Special,
        }
    }

    pub fn name(self) -> &'static str {
        self.mapping().name()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub range: Range<u64>,
    pub kind: Kind,
    pub is_writable: bool,
    pub is_executable: bool,
    /// MAP_SHARED: every process that maps it sees what one writes.
    pub is_shared: bool,
    /// Where in the file it begins.
    pub offset_bytes: u64,
    /// The file's inode; 0 of none.
    pub inode: u64,
    /// The file's path, or a name in brackets, escaped by the kernel (a newline is `\012`).
    pub name: Option<String>,
    /// `None` if only maps was read.
    pub details: Option<Smaps>,
}

/// What smaps adds to maps for a mapping, or smaps_rollup has of a process, in bytes; `None` if this
/// kernel lacks the line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Smaps {
    pub rss_bytes: Option<u64>,
    /// Each page divided by the number of processes that map it.
    pub pss_bytes: Option<u64>,
    /// Pss_Anon, Pss_File, Pss_Shmem: only in smaps_rollup.
    pub pss_anonymous_bytes: Option<u64>,
    pub pss_file_bytes: Option<u64>,
    pub pss_shmem_bytes: Option<u64>,
    /// Anonymous: the part of Rss that copy-on-write is about.
    pub anonymous_bytes: Option<u64>,
    /// AnonHugePages: the part of Anonymous in PMD-mapped huge pages.
    pub huge_bytes: Option<u64>,
    pub swapped_bytes: Option<u64>,
    pub pss_swapped_bytes: Option<u64>,
    /// KSM: the part of Anonymous that the kernel merged with pages of the same content.
    pub ksm_bytes: Option<u64>,
    pub locked_bytes: Option<u64>,
    pub hugetlb_bytes: Option<u64>,
    pub private_clean_bytes: Option<u64>,
    /// Private_Dirty: what no other process maps, written since it was mapped.
    pub private_dirty_bytes: Option<u64>,
    /// KernelPageSize: larger than a base page only for hugetlb.
    pub page_size_bytes: Option<u64>,
    /// VmFlags, two letters each.
    pub flags: Vec<[u8; 2]>,
}

impl Smaps {
    /// Whether it has a flag of VmFlags: `b"hg"`, `b"nh"`, `b"dc"`, …
    pub fn has(&self, flag: &[u8; 2]) -> bool {
        self.flags.contains(flag)
    }

    /// Reads smaps_rollup of `pid`; `None` if the file or process does not exist or may not be read.
    pub fn read(root: &Root, pid: u32) -> Result<Option<Smaps>, ReadError> {
        let file = format!("proc/{pid}/smaps_rollup");
        match root.read(&file) {
            Ok(Some(text)) if !text.is_empty() => Smaps::decode(&text, &root.path(&file)).map(Some),
            Ok(_) => Ok(None),
            // It ended after its file was opened (ESRCH), or is another user's.
            Err(ReadError::Io { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Decodes the text of smaps_rollup. `path` is for messages.
    pub fn decode(text: &str, path: &Path) -> Result<Smaps, ReadError> {
        // The sums follow one line like a mapping's.
        Ok(parse(path, text)?.pop().and_then(|all| all.details).unwrap_or_default())
    }
}

impl Mapping {
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Whether a fork shares its pages until one side writes: private, and not the kernel's. A mapping
    /// that is read-only now may have been written before.
    pub fn is_private(&self) -> bool {
        !self.is_shared && self.kind != Kind::Special
    }

    fn decode(line: &str) -> Option<Mapping> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let range = hex(start)?..hex(end)?;
        let &[_, w, x, s] = words.next()?.as_bytes() else { return None };
        let offset_bytes = hex(words.next()?)?;
        let _device = words.next()?;
        let inode = words.next()?.parse().ok()?;
        let name = words.next().map(str::trim_start).filter(|name| !name.is_empty());
        let (is_writable, is_shared) = (w == b'w', s == b's');
        (range.start < range.end).then(|| Mapping {
            kind: kind(name, inode, is_writable, is_shared),
            range,
            is_writable,
            is_executable: x == b'x',
            is_shared,
            offset_bytes,
            inode,
            name: name.map(str::to_owned),
            details: None,
        })
    }
}

fn kind(name: Option<&str>, inode: u64, is_writable: bool, is_shared: bool) -> Kind {
    match name {
        _ if is_shared => Kind::Named,
        Some("[heap]") => Kind::Heap,
        Some("[stack]") => Kind::Stack,
        None => Kind::Anonymous,
        Some(name) if name.starts_with("[anon") => Kind::Anonymous,
        Some(name) if name.starts_with('[') && inode == 0 => Kind::Special,
        Some(_) if is_writable => Kind::Data,
        Some(_) => Kind::Named,
    }
}

pub fn mappings(target: &Target) -> Result<Vec<Mapping>, ProcessError> {
    read(target, "maps")
}

/// Also reads [`Smaps`]: the kernel walks every page table, at some 15 ns a page. Needs
/// CONFIG_PROC_PAGE_MONITOR.
pub fn detailed_mappings(target: &Target) -> Result<Vec<Mapping>, ProcessError> {
    read(target, "smaps")
}

fn read(target: &Target, file: &str) -> Result<Vec<Mapping>, ProcessError> {
    let text = target.read(file)?;
    if text.is_empty() {
        return Err(target.lost_memory());
    }
    Ok(parse(&target.path(file), &text)?)
}

/// Decodes the text of `path`; errors name it.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Mapping>, ReadError> {
    if !text.ends_with('\n') {
        return Err(ReadError::Cut { path: path.to_owned() });
    }
    decode(text).map_err(|error| {
        let reason = error.to_string();
        ReadError::Malformed { path: path.to_owned(), reason }
    })
}

/// A line of maps or smaps that does not have the kernel's form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: not {item}: {text:?}")]
pub struct LineError {
    /// Counted from 1.
    pub line: usize,
    pub item: &'static str,
    pub text: String,
}

/// Decodes the text of maps or smaps.
pub fn decode(text: &str) -> Result<Vec<Mapping>, LineError> {
    let mut found: Vec<Mapping> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let not = |item| move || LineError { line: index + 1, item, text: line.to_owned() };
        // Only a mapping's own line begins in lower case or with a digit.
        if line.starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_lowercase()) {
            found.push(Mapping::decode(line).ok_or_else(not("a mapping"))?);
        } else {
            let mapping = found.last_mut().ok_or_else(not("below a mapping"))?;
            let details = mapping.details.get_or_insert_default();
            let (key, value) = line.split_once(':').ok_or_else(not("a key and a value"))?;
            add_detail(details, key, value.trim()).ok_or_else(not("a size in kB"))?;
        }
    }
    find_data_segments(&mut found);
    Ok(found)
}

fn add_detail(details: &mut Smaps, key: &str, value: &str) -> Option<()> {
    let field = match key {
        "Rss" => &mut details.rss_bytes,
        "Pss" => &mut details.pss_bytes,
        "Pss_Anon" => &mut details.pss_anonymous_bytes,
        "Pss_File" => &mut details.pss_file_bytes,
        "Pss_Shmem" => &mut details.pss_shmem_bytes,
        "SwapPss" => &mut details.pss_swapped_bytes,
        "KSM" => &mut details.ksm_bytes,
        "Locked" => &mut details.locked_bytes,
        "Private_Hugetlb" => &mut details.hugetlb_bytes,
        "Private_Clean" => &mut details.private_clean_bytes,
        "Anonymous" => &mut details.anonymous_bytes,
        "AnonHugePages" => &mut details.huge_bytes,
        "Swap" => &mut details.swapped_bytes,
        "Private_Dirty" => &mut details.private_dirty_bytes,
        "KernelPageSize" => &mut details.page_size_bytes,
        "VmFlags" => {
            let flags = value.split_ascii_whitespace();
            details.flags = flags.filter_map(|flag| flag.as_bytes().try_into().ok()).collect();
            return Some(());
        }
        _ => return Some(()),
    };
    let kib: u64 = value.strip_suffix("kB")?.trim_end().parse().ok()?;
    *field = Some(kib.checked_mul(1024)?);
    Some(())
}

/// Finds the rest of data segments: .bss follows without a name, and a part that is read-only since
/// relocation (RELRO) precedes the writable part.
fn find_data_segments(all: &mut [Mapping]) {
    for index in 1..all.len() {
        let (before, after) = all.split_at_mut(index);
        let (Some(one), Some(next)) = (before.last_mut(), after.first_mut()) else { continue };
        if one.range.end != next.range.start {
            continue;
        }
        let is_bss = next.kind == Kind::Anonymous && next.name.is_none() && next.is_writable;
        if one.kind == Kind::Data && one.is_writable && is_bss && one.inode != 0 {
            next.kind = Kind::Data;
            next.name.clone_from(&one.name);
        }
        let is_relocated = one.kind == Kind::Named && !one.is_shared && !one.is_executable;
        let continues = one.inode == next.inode
            && one.inode != 0
            && one.offset_bytes + one.bytes() == next.offset_bytes;
        if next.kind == Kind::Data && is_relocated && continues {
            one.kind = Kind::Data;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0a0000000-55d0a0002000 r--p 00000000 fe:00 11 /usr/bin/a program (deleted)\n\
55d0a0002000-55d0a0004000 r-xp 00002000 fe:00 11 /usr/bin/a program (deleted)\n\
55d0a0004000-55d0a0005000 r--p 00004000 fe:00 11 /usr/bin/a program (deleted)\n\
55d0a0005000-55d0a0006000 rw-p 00005000 fe:00 11 /usr/bin/a program (deleted)\n\
55d0a0006000-55d0a0009000 rw-p 00000000 00:00 0 \n\
55d0a1000000-55d0a1021000 rw-p 00000000 00:00 0                          [heap]\n\
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \n\
7f0000100000-7f0000200000 rw-p 00000000 00:00 0                          [anon:arena]\n\
7f0000200000-7f0000300000 rw-s 00000000 00:01 77                         /dev/zero (deleted)\n\
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n\
7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0                          [vdso]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

    #[test]
    fn segments_are_told_apart() {
        let all = decode(MAPS).unwrap();
        use Kind::*;
        let kinds: Vec<Kind> = all.iter().map(|mapping| mapping.kind).collect();
        assert_eq!(
            kinds,
            [
                Named, Named, Data, Data, Data, Heap, Anonymous, Anonymous, Named, Stack, Special,
                Special
            ]
        );
        assert_eq!(all[4].name.as_deref(), Some("/usr/bin/a program (deleted)"));
        assert_eq!(all[5].bytes(), 0x21000);
        assert!(all[8].is_shared && !all[8].is_private() && !all[11].is_private());
        assert!(all[1].is_executable && !all[1].is_writable && all[1].is_private());
        assert_eq!(all[6].name, None);
    }

    #[test]
    fn what_smaps_adds_is_in_bytes_and_what_it_lacks_is_absent() {
        let text = "7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \n\
            Size:               1024 kB\nRss:                 512 kB\nSwap:                  8 kB\n\
            THPeligible:           1\nVmFlags: rd wr mr mw me ac hg \n\
            7f0000100000-7f0000200000 rw-p 00000000 00:00 0 \nRss:                   0 kB\n";
        let all = decode(text).unwrap();
        let first = all[0].details.as_ref().unwrap();
        assert_eq!((first.rss_bytes, first.swapped_bytes), (Some(512 << 10), Some(8 << 10)));
        assert!(first.has(b"hg") && !first.has(b"nh") && first.huge_bytes.is_none());
        assert_eq!(all[1].details.as_ref().unwrap().rss_bytes, Some(0));
    }

    #[test]
    fn a_file_may_have_any_name() {
        for name in
            ["/a b (deleted)", "/)(", "/a\\012Rss: 5 kB", "/[heap]", "[stack:", "[", "/é\u{fffd}"]
        {
            let text = format!("1000-2000 r-xp 00000000 fe:00 11      {name}\nRss:      4 kB\n");
            let all = decode(&text).unwrap();
            assert_eq!((all.len(), all[0].name.as_deref()), (1, Some(name)));
            assert_eq!(
                (all[0].kind, all[0].details.as_ref().unwrap().rss_bytes),
                (Kind::Named, Some(4096))
            );
        }
    }

    #[test]
    fn a_foreign_text_is_refused_with_its_line() {
        for text in
            ["Rss: 5 kB\n", "1000-500 rw-p 0 0:0 0 \n", "zz-yy r--p 0 0:0 0\n", "1000-2000 rw"]
        {
            assert_eq!(decode(text).unwrap_err().text, text.trim_end_matches('\n'), "{text}");
        }
        let error = decode("1000-2000 rw-p 0 0:0 0 \nRss: lots kB\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: not a size in kB: \"Rss: lots kB\"");
    }

    const ROLLUP: &str = "00400000-7ffea870a000 ---p 00000000 00:00 0      [rollup]\n\
        Rss:              277636 kB\nPss:              152832 kB\nPss_Anon:         137480 kB\n\
        Anonymous:        262212 kB\nAnonHugePages:      4096 kB\n";

    #[test]
    fn figures_are_bytes_and_absent_ones_none() {
        let path = Path::new("/proc/1/smaps_rollup");
        let rollup = Smaps::decode(ROLLUP, path).unwrap();
        assert_eq!(rollup.rss_bytes, Some(277_636 << 10));
        assert_eq!(rollup.pss_anonymous_bytes, Some(137_480 << 10));
        assert_eq!(rollup.huge_bytes, Some(4 << 20));
        let old = ROLLUP.replace("Pss_Anon", "Later");
        assert_eq!(Smaps::decode(&old, path).unwrap().pss_anonymous_bytes, None);
        assert!(Smaps::decode(&ROLLUP[..ROLLUP.len() - 3], path).is_err());
    }

    #[test]
    fn ones_own_memory_is_told_and_nobodys_is_not() {
        let own = Smaps::read(&Root::default(), std::process::id()).unwrap();
        assert!(own.is_none_or(|own| own.rss_bytes > Some(0)));
        assert_eq!(Smaps::read(&Root::default(), u32::MAX).unwrap(), None);
    }

    #[test]
    fn ones_own_memory_is_seen_both_ways() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let all = mappings(&own).unwrap();
        for kind in [Kind::Heap, Kind::Stack, Kind::Data, Kind::Named] {
            assert!(all.iter().any(|mapping| mapping.kind == kind), "no {kind:?}");
        }
        let detailed = detailed_mappings(&own).unwrap();
        assert!(detailed.iter().all(|mapping| mapping.details.is_some()));
        assert!(detailed.iter().filter_map(|m| m.details.as_ref()?.rss_bytes).sum::<u64>() > 0);
    }
}
