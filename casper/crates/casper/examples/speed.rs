// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast a trace is read: speed FILE

use std::time::Instant;

use cowlab_casper::profile::{Profile, ProfileSettings};
use cowlab_casper::read::Trace;

fn main() {
    let path = std::env::args().nth(1).expect("a trace");
    let trace = Trace::open(&path).expect("a trace");
    let say = |what: &str, begin: Instant, events: u64| {
        let seconds = begin.elapsed().as_secs_f64();
        println!("{what}: {events} events, {:.1} million/s", events as f64 / seconds / 1e6);
    };
    let begin = Instant::now();
    let mut events = 0;
    let mut bytes = 0;
    trace
        .for_each(|_, raw| {
            events += 1;
            bytes += raw.bytes.len();
        })
        .expect("readable");
    say(&format!("in the file's order, {bytes} bytes of events"), begin, events);

    let begin = Instant::now();
    let profile = Profile::of(&trace, &ProfileSettings::default()).expect("readable");
    say("profile", begin, profile.damage.read_events);

    let begin = Instant::now();
    let mut merge = trace.merge().expect("readable");
    let mut events = 0;
    while merge.next().expect("readable").is_some() {
        events += 1;
    }
    say("in the order of time", begin, events);
}
