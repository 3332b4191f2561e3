// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions by their places.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use object::{Object, ObjectSymbol, ReadCache, SymbolKind};
use rustix::fs::OFlags;

use crate::blame::image::{Image, open_file};
use crate::blame::space::Place;

/// A function as people know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Its name, demangled; `file+0x…` with its beginning where nobody knows it.
    pub name: String,
    /// The file that has it, without folders; empty of code that a program made itself.
    pub module: String,
    /// Its source file and line, of the place.
    pub source: Option<(String, u32)>,
}

/// Looks functions up, each file once.
#[derive(Default)]
pub struct Names {
    files: HashMap<PathBuf, Symbols>,
}

/// Names of one file take no more; the rest of them is left out.
const NAMES_MOST_BYTES: usize = 256 << 20;

/// What is known of a file.
#[derive(Default)]
struct Symbols {
    /// Address, size, name; sorted. Of its own tables and of its debug file's.
    functions: Vec<(u64, u64, String)>,
    debug: Option<addr2line::Loader>,
}

impl Names {
    /// The functions of a place: the innermost that was inlined there first.
    pub fn at(&mut self, place: &Place) -> Vec<Function> {
        let Place::File(image, address) = place else { return Vec::new() };
        let symbols = self.files.entry(image.reopen()).or_insert_with(|| Symbols::read(image));
        symbols.at(image, *address)
    }

    /// Whether debug information of a file was found.
    pub fn has_debug(&self, image: &Image) -> bool {
        self.files.get(&image.reopen()).is_some_and(|symbols| symbols.debug.is_some())
    }
}

impl Symbols {
    fn read(image: &Arc<Image>) -> Symbols {
        let mut functions = Vec::new();
        let debug_file = debug_file(&image.build_id);
        let open = |path| open_file(path, OFlags::empty());
        let found = debug_file.as_deref().and_then(open);
        for file in [image.file.try_clone().ok(), found].into_iter().flatten() {
            add_functions(file, &mut functions);
        }
        functions.sort();
        let debug = match debug_file {
            Some(path) => addr2line::Loader::new(path).ok(),
            None => own_debug(image),
        };
        Symbols { functions, debug }
    }

    fn at(&self, image: &Image, address: u64) -> Vec<Function> {
        let module = image.short_name().to_owned();
        let mut found = Vec::new();
        if let Some(Ok(mut frames)) = self.debug.as_ref().map(|debug| debug.find_frames(address)) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(name) = frame.function.as_ref().and_then(|name| name.demangle().ok())
                else {
                    continue;
                };
                let at = frame.location.and_then(|at| Some((at.file?.to_owned(), at.line?)));
                found.push(Function {
                    name: name.into_owned(),
                    module: module.clone(),
                    source: at,
                });
            }
        }
        if found.is_empty() {
            found.push(Function { name: self.symbol(image, address), module, source: None });
        }
        found
    }

    /// The symbol that has the address, or the beginning of its function.
    fn symbol(&self, image: &Image, address: u64) -> String {
        let start = image.function_start(address);
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        // Names of the same function stand together, and the first one is taken; those of no size
        // are assembly's, and are believed where the unwind tables know no function in between.
        let mut before = self.functions[..after].iter().rev();
        let holds = |(at, bytes, _): &&(u64, u64, String)| match bytes {
            0 => start.is_none_or(|start| start <= *at),
            _ => address - at < *bytes,
        };
        match before.find(holds) {
            Some((.., name)) => addr2line::demangle_auto(Cow::Borrowed(name), None).into_owned(),
            None if image.is_entry(address) => "_start".to_owned(),
            None => format!("{}+{:#x}", image.short_name(), start.unwrap_or(address)),
        }
    }
}

fn add_functions(file: File, functions: &mut Vec<(u64, u64, String)>) {
    let cache = ReadCache::new(file);
    let Ok(elf) = object::File::parse(&cache) else { return };
    let mut bytes = 0;
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.is_definition() && symbol.kind() == SymbolKind::Text {
            let Ok(name) = symbol.name() else { continue };
            bytes += name.len() + size_of::<(u64, u64, String)>();
            if bytes > NAMES_MOST_BYTES {
                return;
            }
            functions.push((symbol.address(), symbol.size(), name.to_owned()));
        }
    }
}

/// Where distributions put debug information (gdb: Separate Debug Files).
fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug"));
    path.is_file().then_some(path)
}

/// The debug information in the file itself, of root's files alone: it is mapped while it is read, so that
/// others could cut it, and it may name other files, which would be opened.
fn own_debug(image: &Image) -> Option<addr2line::Loader> {
    let file = image.file.metadata().ok()?;
    if file.uid() != 0 || file.mode() & 0o022 != 0 {
        return None;
    }
    let cache = ReadCache::new(image.file.try_clone().ok()?);
    object::File::parse(&cache).ok()?.section_by_name(".debug_info")?;
    addr2line::Loader::new(image.reopen()).ok()
}
