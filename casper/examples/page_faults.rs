// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What record_page_faults.c recorded: page faults by process, and how many of them hit the page
//! after the one before, where a kernel that prepares the next page would have been right.
//! page_faults TRACE

use std::collections::BTreeMap;

use cowlab_casper::read::{ReadError, Trace};

fn main() -> Result<(), ReadError> {
    let trace = Trace::open(std::env::args().nth(1).unwrap_or("trace.casper".into()))?;
    let mut of: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    let mut records = trace.merge()?;
    while let Some(record) = records.next()? {
        let field = |name| record.field(name).and_then(|value| value.unsigned());
        if record.schema.is_none_or(|schema| schema.name != "page-fault") {
            continue;
        }
        let (Some(pid), Some(address)) = (field("pid"), field("address")) else { continue };
        let (faults, next, page) = of.entry(pid).or_default();
        *next += u64::from(*faults > 0 && address / 4096 == *page + 1);
        (*page, *faults) = (address / 4096, *faults + 1);
    }
    of.iter().for_each(|(pid, (faults, next, _))| {
        println!("{pid}: {faults} faults, {next} on the next page");
    });
    Ok(())
}
