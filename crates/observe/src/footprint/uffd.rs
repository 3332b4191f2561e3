// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes by asynchronous write-protection (userfaultfd's WP_ASYNC, Linux 6.7), in memory that the
//! program itself has registered: by the library that this crate carries, or by code of its own
//! after the same pattern (examples/footprint_uffd.c).
//!
//! A write to a protected page costs it one short fault, which the kernel resolves by itself. Pages
//! that are not written stay protected until the program ends, so consent is needed.

use cowlab_machine::ProcessError;

use super::method::Method;
use super::reading::{Reading, join};
use super::shares::{add_files, add_mappings};
use super::spans::Moment;
use super::tally::{Fate, Tally};
use crate::pagemap::{Pagemap, ScanFilter, category};
use crate::target::Target;

/// Protects every registered page of the process, and looks at it. Needs a kernel with
/// PAGEMAP_SCAN.
pub fn protect(target: &Target) -> Result<Moment, ProcessError> {
    let mut pagemap = Pagemap::open(target)?;
    let moment = Moment::take(target, Method::Uffd)?;
    let wanted = ScanFilter {
        all_of: category::WRITE_PROTECTABLE | category::WRITTEN,
        returned: category::WRITTEN,
        protect: true,
        ..ScanFilter::default()
    };
    for mapping in moment.reading.mappings.iter().filter(|mapping| mapping.is_writable) {
        // A mapping that is not registered is refused (EPERM): it stays as it is.
        let _ = pagemap.scan(target, mapping.range.clone(), wanted, |_| {});
    }
    Ok(moment)
}

/// What was written since.
pub fn written(before: &Moment, target: &Target) -> Result<Tally, ProcessError> {
    let mut pagemap = Pagemap::open(target)?;
    let now = Reading::take(target, &mut pagemap)?;
    let wanted = ScanFilter {
        all_of: category::WRITE_PROTECTABLE | category::WRITTEN,
        returned: category::WRITTEN,
        ..ScanFilter::default()
    };
    let mut regions = Vec::new();
    for mapping in now.mappings.iter().filter(|mapping| mapping.is_writable) {
        pagemap.scan(target, mapping.range.clone(), wanted, |region| regions.push(region))?;
    }
    let mut tally = Tally::default();
    let mut at = 0;
    for (address, old, new) in join(before.reading.private_pages(), now.private_pages()) {
        while regions.get(at).is_some_and(|region| region.end <= address) {
            at += 1;
        }
        let is_marked = regions.get(at).is_some_and(|region| region.start <= address);
        let (was_there, is_there) = (old.is_some(), new.is_some());
        let is_new = !was_there && new.is_some_and(|placed| placed.is_anonymous());
        let Some(placed) = new.or(old) else { continue };
        let fate = Fate { was_there, is_there, is_written: is_new || is_marked };
        tally.add(address, placed.kind, fate);
    }
    add_files(&mut tally, &now);
    add_mappings(&mut tally, &now);
    Ok(tally)
}
