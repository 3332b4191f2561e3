// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions by their places in files.

use std::path::PathBuf;

use cowlab_casper::elf::{Budget, Elf, open_regular};
use cowlab_casper::symbol::{Functions, demangled};

use crate::blame::image::Image;

/// What is read of a file and its debug file.
const FILES_MOST_BYTES: u64 = 128 << 20;

/// A function's name, demangled, or `file+0x…` with its beginning where nobody knows it; and its source file and line.
pub type Function = (String, Option<(String, u32)>);

/// The functions of addresses of a file: of each address the innermost that was inlined there first. And whether all
/// was read that says so.
pub fn functions(image: &Image, addresses: &[u64]) -> (Vec<Vec<Function>>, bool) {
    let budget = Budget::new(FILES_MOST_BYTES, FILES_MOST_BYTES);
    let debug_file = debug_file(&image.build_id).and_then(|path| open_regular(None, &path));
    let files = [image.file().try_clone().ok(), debug_file];
    let known =
        Functions::read(files.into_iter().flatten().filter_map(|of| Elf::read(of, &budget)));
    let at = |address: &u64| {
        let frames = known.frames(*address);
        let named: Vec<Function> = frames.into_iter().map(|of| (of.name, of.source)).collect();
        if named.is_empty() { vec![(symbol(&known, image, *address), None)] } else { named }
    };
    (addresses.iter().map(at).collect(), budget.refused() == 0)
}

/// The symbol that has the address, or the beginning of its function.
fn symbol(known: &Functions, image: &Image, address: u64) -> String {
    let start = image.function_start(address);
    // Those of no size are assembly's, and are believed where the unwind tables know no function in between.
    let mut symbols = known.before(address);
    let symbol = symbols.find(|of| of.bytes > 0 || start.is_none_or(|start| start <= of.address));
    match symbol {
        Some(symbol) => demangled(symbol.name),
        None => unnamed(image, address),
    }
}

/// What is said where no symbol is known.
pub(super) fn unnamed(image: &Image, address: u64) -> String {
    if image.is_entry(address) {
        return "_start".to_owned();
    }
    let start = image.function_start(address);
    format!("{}+{:#x}", image.short_name(), start.unwrap_or(address))
}

/// Where distributions put debug information (gdb: Separate Debug Files).
fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug").into())
}
