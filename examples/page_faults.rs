// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Page faults by the file whose code they hit: page_faults TRACE

use std::collections::BTreeMap;

use cowlab_casper::read::{ReadError, Trace};

fn main() -> Result<(), ReadError> {
    let trace = Trace::open(std::env::args().nth(1).unwrap_or("trace.casper".into()))?;
    let metadata = trace.metadata()?;
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    let mut records = trace.merge()?;
    while let Some(record) = records.next()? {
        if record.schema.is_none_or(|schema| schema.name != "page-fault") {
            continue;
        }
        let Some(address) = record.field("address").and_then(|value| value.unsigned()) else {
            continue;
        };
        let module = metadata.module(record.owner.process, address);
        *faults.entry(module.map_or("(no file)", |module| &module.path)).or_default() += 1;
    }
    faults.iter().for_each(|(file, faults)| println!("{faults} {file}"));
    Ok(())
}
