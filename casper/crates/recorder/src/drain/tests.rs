// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::session::Options;

struct Nowhere;

impl Sink for Nowhere {
    fn data(&mut self, _: &DataChunk, _: &[u8]) {}
}

#[test]
fn a_session_has_no_more_threads_than_the_recorder_can_remember() {
    let session = Session::create(Options::default()).unwrap();
    let mut drain = Drain { begun: STREAMS_MAX - 1, ..Drain::default() };
    let mut claims = |index: u32| {
        let buffer = session.buffer_offset(index);
        session.memory().u32(field!(buffer, state)).store(CASPER_BUFFER_CLAIMED, Ordering::SeqCst);
        session.memory().u32(field!(buffer, stream)).store(1, Ordering::SeqCst);
        drain.round(&session, &mut Nowhere, false);
        drain.breach().map(str::to_owned)
    };
    assert_eq!(claims(0), None);
    assert_eq!(claims(1).as_deref(), Some("more than 1000000 threads recorded"));
}
