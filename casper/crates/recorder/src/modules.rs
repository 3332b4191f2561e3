// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modules of a process that ran before its recording began: others tell them themselves.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use anyhow::Result;
use cowlab_casper::record::casper_meta_module;
use cowlab_machine::mappings::Mapping;
use object::{Object, ObjectSegment, ReadCache, SegmentFlags};
use rustix::fs::OFlags;
use zerocopy::FromZeros;

use crate::file::TraceFile;
use crate::target::mappings_of;

/// More than any program has; each is opened while the recording waits.
const MODULES_MAX: usize = 4096;
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Write the modules of `pid` into the trace, as those of process number `process`.
pub fn record_modules(file: &mut TraceFile, process: u32, pid: u32) -> Result<()> {
    let mappings = mappings_of(pid)?;
    let executable = mappings.iter().filter(|mapping| mapping.is_executable);
    for mapping in executable.take(MODULES_MAX) {
        let Some(path) = mapping.name.as_deref().filter(|name| name.starts_with('/')) else {
            continue;
        };
        let mut module = casper_meta_module::new_zeroed();
        (module.start, module.end) = (mapping.range.start, mapping.range.end);
        let Some(file_there) = open(path, mapping) else { continue };
        let cache = ReadCache::new(file_there);
        let Ok(elf) = object::File::parse(&cache) else { continue };
        let executable = |flags: SegmentFlags| match flags {
            SegmentFlags::Elf { p_flags, .. } => p_flags.contains(object::elf::PF_X),
            _ => false,
        };
        let Some(text) = elf.segments().find(|segment| executable(segment.flags())) else {
            continue;
        };
        let page_offset = text.file_range().0.saturating_sub(mapping.offset_bytes);
        module.bias = mapping.range.start.wrapping_add(page_offset).wrapping_sub(text.address());
        if let Ok(Some(id)) = elf.build_id() {
            let bytes = id.len().min(module.build_id.len());
            module.build_id[..bytes].copy_from_slice(&id[..bytes]);
            module.build_id_bytes = bytes as u32;
        }
        file.module(process, &module, path);
    }
    Ok(())
}

/// The file that is mapped, if it is still what stands there: another one may be a pipe that blocks.
fn open(path: &str, mapping: &Mapping) -> Option<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let is = file.metadata().ok()?;
    (is.is_file() && is.ino() == mapping.inode && is.len() <= FILE_BYTES_MAX).then_some(file)
}
