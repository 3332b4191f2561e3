// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever bytes it gets, the reader ends, and its ways through a trace agree.
//!
//! Most inputs are a recipe for a trace (see `recipe`), whose checksums are then right, so that what
//! is behind them is reached; the others are the trace itself.

mod recipe;

use cowlab_casper::profile::{Pair, Profile, ProfileSettings};
use cowlab_casper::read::Trace;
use cowlab_casper::record::is_note;

pub(crate) fn read(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else { return };
    let bytes = if first % 8 == 7 { rest.to_vec() } else { recipe::trace(rest) };
    let Ok(trace) = Trace::from_bytes(bytes, "input") else { return };

    let mut events = 0u64;
    let damage = trace.for_each(|_, raw| events += u64::from(!is_note(raw.event_type())));
    let damage = damage.expect("memory is readable");
    let _ = (trace.command(), damage.is_complete());

    let metadata = trace.metadata().expect("memory is readable");
    let known = metadata.processes().keys().copied();
    let _ = known.map(|process| metadata.image(process)).max();

    let mut merge = trace.merge().expect("memory is readable");
    let mut merged = 0u64;
    while let Some(record) = merge.next().expect("memory is readable") {
        merged += 1;
        for field in record.fields() {
            let _ = (field.value.number(), field.value.to_string().len());
        }
    }
    assert_eq!(events, merged, "the two ways through a trace");

    let pair = |from: &str, to: &str| Pair { name: from.into(), from: from.into(), to: to.into() };
    let settings = ProfileSettings {
        pid: None,
        pairs: vec![pair("1", "2"), pair("3", "3")],
        field: metadata
            .types_named("1")
            .first()
            .and_then(|event| Some(("1".to_owned(), event.fields.first()?.name.clone()))),
    };
    let profile = Profile::of(&trace, &settings).expect("types by number are always known");
    let counted: u64 = profile.types.iter().map(|of| of.count).sum();
    assert_eq!(counted, events, "the profile's events");
    for (_, function) in profile.functions.used() {
        let ended = function.times.count
            + function.left_by_longjmp
            + function.still_open
            + function.cut_by_loss;
        assert!(ended <= function.calls, "{function:?}");
        let _ = (function.times.quantile(0.99), function.times.variance());
    }
}
