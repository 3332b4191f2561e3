// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modules of a process that ran before its recording began: others tell them themselves.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use cowlab_casper::elf::{Budget, Elf, open_regular};
use cowlab_casper::record::casper_meta_module;
use zerocopy::FromZeros;

use crate::file::TraceFile;
use crate::target::mappings_of;

/// More than any program has; each is opened while the recording waits.
const MODULES_MAX: usize = 4096;
/// Headers and a build id are read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Write the modules of `pid` into the trace, as those of process number `process`.
pub fn record_modules(file: &mut TraceFile, process: u32, pid: u32) -> Result<()> {
    let mappings = mappings_of(pid)?;
    let budget = Budget::new(FILE_BYTES_MAX, FILE_BYTES_MAX);
    let executable = mappings.iter().filter(|mapping| mapping.is_executable);
    for mapping in executable.take(MODULES_MAX) {
        let Some(path) = mapping.name.as_deref().filter(|name| name.starts_with('/')) else {
            continue;
        };
        let mut module = casper_meta_module::new_zeroed();
        (module.start, module.end) = (mapping.range.start, mapping.range.end);
        // Another file may stand there by now.
        let found = open_regular(None, Path::new(path));
        let is_it =
            |file: &std::fs::File| file.metadata().is_ok_and(|of| of.ino() == mapping.inode);
        let elf = found.filter(is_it).and_then(|found| Elf::read(found, &budget));
        let Some(elf) = elf else { continue };
        let Some(text) = elf.segments().iter().find(|segment| segment.is_executable) else {
            continue;
        };
        let page_offset = text.offset.saturating_sub(mapping.offset_bytes);
        module.bias = mapping.range.start.wrapping_add(page_offset).wrapping_sub(text.address);
        let id = elf.build_id();
        let bytes = id.len().min(module.build_id.len());
        module.build_id[..bytes].copy_from_slice(&id[..bytes]);
        module.build_id_bytes = bytes as u32;
        file.module(process, &module, path);
    }
    Ok(())
}
