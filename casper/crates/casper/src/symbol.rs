// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses as functions: from the files that were mapped, if they are still the same.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, LittleEndian, SectionId};
use object::LittleEndian as LE;
use object::elf::{STT_FUNC, STT_GNU_IFUNC, Sym64};
use object::pod;

use crate::elf::{Budget, Elf, Section, open_regular};
use crate::meta::{Metadata, Module};

/// A file of more is not looked into.
const FILE_MOST_BYTES: u64 = 256 << 20;
const ALL_MOST_BYTES: u64 = 1 << 30;
/// Names are cut there, mangled or not.
const NAME_MOST_BYTES: usize = 4096;
/// No function has more inlined in one place.
const INLINED_MOST: usize = 64;
/// So many symbols before an address are looked at for the one that has it.
const NESTED_MOST: usize = 64;

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
pub struct Symbols {
    modules: HashMap<(String, Vec<u8>), Option<Functions>>,
    budget: Arc<Budget>,
}

impl Default for Symbols {
    fn default() -> Self {
        let budget = Budget::new(FILE_MOST_BYTES, ALL_MOST_BYTES);
        Symbols { modules: HashMap::new(), budget }
    }
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
        let load = || functions_of(module, &self.budget);
        let functions = self.modules.entry(key).or_insert_with(load).as_ref();
        let short = Path::new(&module.path).file_name().unwrap_or_default().to_string_lossy();
        let name = functions.and_then(|of| Some(demangled(of.before(in_file).next()?.name)));
        let frame = functions.and_then(|functions| functions.frames(in_file).into_iter().next());
        let source = frame.and_then(|frame| frame.source);
        Symbol {
            name: name.unwrap_or_else(|| format!("{short}+{in_file:#x}")),
            file: source.as_ref().map(|(file, _)| file.clone()),
            line: source.map(|(_, line)| line),
            module: Some(module.path.clone()),
        }
    }
}

/// The functions of a module; `None` where its file is gone, or another one by now.
fn functions_of(module: &Module, budget: &Arc<Budget>) -> Option<Functions> {
    let path = Path::new(&module.path);
    let elf = Elf::read(open_regular(None, path.is_absolute().then_some(path)?)?, budget)?;
    let is_it = module.build_id.is_empty() || elf.build_id().starts_with(&module.build_id);
    is_it.then(|| Functions::read([elf]))
}

/// The functions of a file: by the symbols and the debug information in it, and in others that were split from it.
/// What that information names in further files (split DWARF) is not looked for.
pub struct Functions {
    /// Sorted by address.
    symbols: Vec<Entry>,
    strings: Vec<Arc<[u8]>>,
    debug: Option<Context<EndianArcSlice<LittleEndian>>>,
    _files: Vec<Elf>,
}

/// A symbol, and where its name is.
struct Entry {
    address: u64,
    bytes: u64,
    table: u32,
    name: u32,
}

impl Entry {
    fn name<'a>(&self, strings: &'a [Arc<[u8]>]) -> Option<&'a [u8]> {
        let name = strings[self.table as usize].get(self.name as usize..)?;
        name[..name.len().min(NAME_MOST_BYTES)].split(|byte| *byte == 0).next()
    }
}

/// A function by its symbol.
#[derive(Debug)]
pub struct Function<'a> {
    /// As it is in the file.
    pub name: &'a str,
    /// Where it begins.
    pub address: u64,
    /// Its length; 0 of one in assembly that does not say.
    pub bytes: u64,
}

/// A function by the debug information.
#[derive(Debug)]
pub struct Frame {
    /// Demangled.
    pub name: String,
    /// Its source file and line.
    pub source: Option<(String, u32)>,
}

impl Functions {
    /// Reads what the files have. The debug information is the last one's that has any.
    pub fn read(files: impl IntoIterator<Item = Elf>) -> Functions {
        let mut all =
            Functions { symbols: Vec::new(), strings: Vec::new(), debug: None, _files: Vec::new() };
        for elf in files {
            for name in [".symtab", ".dynsym"] {
                let section = elf.section(name);
                section.and_then(|section| all.add(&elf, section));
            }
            all.debug = debug(&elf).or(all.debug.take());
            all._files.push(elf);
        }
        let Functions { symbols, strings, .. } = &mut all;
        symbols.sort_by(|one, two| {
            let by_place = (one.address, one.bytes).cmp(&(two.address, two.bytes));
            by_place.then_with(|| one.name(strings).cmp(&two.name(strings)))
        });
        all
    }

    fn add(&mut self, elf: &Elf, section: &Section) -> Option<()> {
        let bytes = elf.bytes(section)?;
        let names = elf.bytes(elf.linked(section)?)?;
        let count = bytes.len() / size_of::<Sym64<LE>>();
        let (symbols, _) = pod::slice_from_bytes::<Sym64<LE>>(&bytes, count).ok()?;
        let table = self.strings.len() as u32;
        let is_function = |symbol: &&Sym64<LE>| {
            [STT_FUNC, STT_GNU_IFUNC].contains(&symbol.st_type()) && symbol.st_shndx.get(LE).0 != 0
        };
        self.symbols.extend(symbols.iter().filter(is_function).map(|symbol| Entry {
            address: symbol.st_value.get(LE),
            bytes: symbol.st_size.get(LE),
            table,
            name: symbol.st_name.get(LE),
        }));
        self.strings.push(names);
        Some(())
    }

    /// The functions that may have an address, the likeliest first.
    pub fn before(&self, address: u64) -> impl Iterator<Item = Function<'_>> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let near = &self.symbols[after.saturating_sub(NESTED_MOST)..after];
        let has = move |of: &&Entry| of.bytes == 0 || address - of.address < of.bytes;
        near.iter().rev().filter(has).filter_map(|symbol| {
            let name = std::str::from_utf8(symbol.name(&self.strings)?).ok()?;
            Some(Function { name, address: symbol.address, bytes: symbol.bytes })
        })
    }

    /// The functions of an address, the innermost that was inlined there first.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        let mut found = Vec::new();
        let frames = self.debug.as_ref().map(|debug| debug.find_frames(address).skip_all_loads());
        let Some(Ok(mut frames)) = frames else { return found };
        while let Ok(Some(frame)) = frames.next()
            && found.len() < INLINED_MOST
        {
            let Some(function) = frame.function else { continue };
            let Ok(name) = function.raw_name() else { continue };
            let source = frame.location.and_then(|at| Some((cut(at.file?).to_owned(), at.line?)));
            found.push(Frame { name: demangled(&name), source });
        }
        found
    }
}

fn debug(elf: &Elf) -> Option<Context<EndianArcSlice<LittleEndian>>> {
    elf.section(".debug_info").filter(|section| section.bytes > 0)?;
    let dwarf = Dwarf::load(|id| {
        // What variables are is not asked.
        let is_read = !matches!(id, SectionId::DebugLoc | SectionId::DebugLocLists);
        let bytes = match elf.section(id.name()).filter(|_| is_read) {
            Some(section) => elf.unpacked(section).ok_or(())?,
            None => Arc::default(),
        };
        Ok::<_, ()>(EndianArcSlice::new(bytes, LittleEndian))
    });
    Context::from_dwarf(dwarf.ok()?).ok()
}

/// A name as people write it: C++'s and Rust's demangled, unless that makes it too long. A mangled name of some bytes
/// can stand for any number.
pub fn demangled(name: &str) -> String {
    struct Short(String);

    impl std::fmt::Write for Short {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.push_str(text);
            if self.0.len() > NAME_MOST_BYTES { Err(std::fmt::Error) } else { Ok(()) }
        }
    }

    let name = cut(name);
    let mut short = Short(String::new());
    let is_written = match rustc_demangle::try_demangle(name) {
        Ok(demangled) => write!(short, "{demangled:#}").is_ok(),
        Err(_) => cpp_demangle::Symbol::new(name)
            .is_ok_and(|of| of.structured_demangle(&mut short, &Default::default()).is_ok()),
    };
    if is_written { short.0 } else { name.to_owned() }
}

fn cut(name: &str) -> &str {
    let most = name.len().min(NAME_MOST_BYTES);
    (0..=most).rev().find_map(|at| name.get(..at)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_and_none_grows_without_a_bound() {
        assert_eq!(demangled("_ZN5space3fooEibc"), "space::foo(int, bool, char)");
        assert_eq!(demangled("main"), "main");
        // Each parameter is a function of two of the one before.
        let mut bomb = "_Z1fPFvvE".to_owned();
        for at in 0..30 {
            let before = if at == 0 { "S_".to_owned() } else { format!("S{}_", at36(2 * at - 1)) };
            write!(bomb, "PFv{before}{before}E").unwrap();
        }
        assert!(demangled(&bomb).len() <= NAME_MOST_BYTES);
        assert_eq!(demangled(&"x".repeat(9000)).len(), NAME_MOST_BYTES);
    }

    fn at36(number: usize) -> String {
        let digit = |of: usize| char::from_digit(of as u32, 36).unwrap().to_ascii_uppercase();
        match number {
            0..36 => digit(number).to_string(),
            _ => format!("{}{}", digit(number / 36), digit(number % 36)),
        }
    }
}
