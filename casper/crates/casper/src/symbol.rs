// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses as functions: from the files that were mapped, if they are still the same.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use object::{Object, ReadCache};

use crate::meta::{Metadata, Module};

/// What stands at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The function, or `module+0x…` where nobody knows it, or the address alone.
    pub name: String,
    /// Its source file.
    pub file: Option<String>,
    /// Its line.
    pub line: Option<u32>,
    /// The file that was mapped there.
    pub module: Option<String>,
}

/// Looks symbols up, each file once.
#[derive(Default)]
pub struct Symbols {
    modules: HashMap<(String, Vec<u8>), Option<addr2line::Loader>>,
}

impl Symbols {
    /// What stands at an address of a process.
    pub fn at(&mut self, metadata: &Metadata, process: u32, address: u64) -> Symbol {
        match metadata.module(process, address) {
            Some(module) => self.in_module(module, address),
            None => Symbol { name: format!("{address:#x}"), file: None, line: None, module: None },
        }
    }

    /// What stands at an address of a module.
    pub fn in_module(&mut self, module: &Module, address: u64) -> Symbol {
        let in_file = address.wrapping_sub(module.bias);
        let key = (module.path.clone(), module.build_id.clone());
        let loader = self.modules.entry(key).or_insert_with(|| load(module)).as_ref();
        let short = Path::new(&module.path).file_name().unwrap_or_default().to_string_lossy();
        let name = loader.and_then(|loader| loader.find_symbol(in_file)).map_or_else(
            || format!("{short}+{in_file:#x}"),
            |name| addr2line::demangle_auto(Cow::Borrowed(name), None).into_owned(),
        );
        let location = loader.and_then(|loader| loader.find_location(in_file).ok().flatten());
        Symbol {
            name,
            file: location.as_ref().and_then(|found| found.file).map(str::to_owned),
            line: location.and_then(|found| found.line),
            module: Some(module.path.clone()),
        }
    }
}

/// The symbols of a module; `None` where its file is gone, or another one by now.
fn load(module: &Module) -> Option<addr2line::Loader> {
    let path = Path::new(&module.path);
    // A path in a trace may be anything: a FIFO would block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let found = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !path.is_absolute() || !found.metadata().ok()?.is_file() {
        return None;
    }
    if !module.build_id.is_empty() {
        let cache = ReadCache::new(found);
        let file = object::File::parse(&cache).ok()?;
        let id = file.build_id().ok()??;
        if !id.starts_with(&module.build_id) {
            return None;
        }
    }
    addr2line::Loader::new(path).ok()
}
