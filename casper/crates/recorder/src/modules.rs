// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modules of a process that ran before its recording began: others tell them themselves.

use anyhow::Result;
use cowlab_casper::record::casper_meta_module;
use object::Object;
use object::ObjectSegment;
use object::SegmentFlags;
use zerocopy::FromZeros;

use crate::file::TraceFile;
use crate::gate::mappings_of;

/// Write the modules of `pid` into the trace, as those of process number `process`.
pub fn record_modules(file: &mut TraceFile, process: u32, pid: u32) -> Result<()> {
    for mapping in mappings_of(pid)?.iter().filter(|mapping| mapping.is_executable) {
        let Some(path) = mapping.name.as_deref().filter(|name| name.starts_with('/')) else {
            continue;
        };
        let mut module = casper_meta_module::new_zeroed();
        (module.start, module.end) = (mapping.range.start, mapping.range.end);
        let Ok(bytes) = std::fs::read(path) else { continue };
        let Ok(elf) = object::File::parse(&*bytes) else { continue };
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
