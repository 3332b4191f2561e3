// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace on its way, and what C was lent of it.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr, c_char};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use cowlab_casper::meta::{EventType, FieldType};
use cowlab_casper::read::{Merge, Owner, ReadError, Trace, Value};

use crate::{casper_account, casper_record};

/// The trace and a way through it that borrows it.
struct Way {
    /// Dropped first.
    merge: ManuallyDrop<Merge<'static>>,
    trace: *mut Trace,
}

// SAFETY: the pointer is the only one to its trace besides the merge's borrow, which goes along; and
// both may change threads by themselves, as the line below has the compiler confirm: a shared borrow
// of the trace as well, since that is Sync.
unsafe impl Send for Way {}
const _: () = {
    const fn may_change_threads<T: Send>() {}
    may_change_threads::<(Merge<'static>, Trace, &Trace)>();
};

pub struct Handle {
    way: Option<Way>,
    error: Option<CString>,
    read: u64,
    owner: Owner,
    event_type: Option<u16>,
    /// The event, as 16-byte words for its alignment.
    event: Vec<u128>,
    event_bytes: usize,
    type_name: Option<(u32, u16, CString)>,
    lent: Vec<CString>,
}

impl Handle {
    pub fn open(path: Option<&[u8]>) -> Handle {
        let Some(path) = path else { return Handle::broken("the path is NULL") };
        match Way::open(Path::new(OsStr::from_bytes(path))) {
            Ok(way) => Handle::new(Some(way)),
            Err(error) => Handle::broken(&error.to_string()),
        }
    }

    /// A handle that is good for saying what went wrong.
    pub fn broken(error: &str) -> Handle {
        let mut handle = Handle::new(None);
        handle.fail(error);
        handle
    }

    fn new(way: Option<Way>) -> Handle {
        Handle {
            way,
            error: None,
            read: 0,
            owner: Owner::default(),
            event_type: None,
            event: Vec::new(),
            event_bytes: 0,
            type_name: None,
            lent: Vec::new(),
        }
    }

    pub fn fail(&mut self, error: &str) {
        self.way = None;
        self.event_type = None;
        self.error = Some(c_text(error));
    }

    pub fn error(&self) -> *const c_char {
        self.error.as_ref().map_or(ptr::null(), |error| error.as_ptr())
    }

    pub fn next(&mut self) -> Result<Option<casper_record>, ()> {
        self.lent.clear();
        self.event_type = None;
        let Some(way) = &mut self.way else { return Err(()) };
        let record = match way.merge.next() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(None),
            Err(error) => {
                let error = error.to_string();
                self.fail(&error);
                return Err(());
            }
        };
        self.read += 1;
        self.owner = record.owner;
        self.event_type = Some(record.event_type);
        self.event_bytes = record.bytes.len();
        self.event.clear();
        for part in record.bytes.chunks(16) {
            let mut word = [0; 16];
            word[..part.len()].copy_from_slice(part);
            self.event.push(u128::from_ne_bytes(word));
        }
        let key = (record.owner.process, record.event_type);
        if self.type_name.as_ref().is_none_or(|(process, number, _)| (*process, *number) != key) {
            self.type_name = record.schema.map(|known| (key.0, key.1, c_text(&known.name)));
        }
        Ok(Some(casper_record {
            time_ns: record.time_ns,
            ticks: record.ticks,
            event: self.event.as_ptr().cast(),
            event_bytes: self.event_bytes,
            type_name: self.type_name.as_ref().map_or(ptr::null(), |(.., name)| name.as_ptr()),
            process: record.owner.process,
            pid: record.owner.pid,
            tid: record.owner.tid,
            stream: record.stream,
            level: record.level,
            event_type: record.event_type,
        }))
    }

    fn schema(&self) -> Option<&EventType> {
        let way = self.way.as_ref()?;
        way.merge.metadata().event_type(self.owner.process, self.event_type?)
    }

    pub fn field(&self, number: usize) -> Option<&FieldType> {
        self.schema()?.fields.get(number)
    }

    /// A field of the record that `next` gave last.
    pub fn value(&self, field: &str) -> Option<Value<'_>> {
        let field = self.schema()?.field(field)?;
        // SAFETY: `event` holds at least `event_bytes` bytes, all of them set.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.event.as_ptr().cast(), self.event_bytes) };
        field.value(bytes)
    }

    pub fn module(&self, address: u64) -> Option<String> {
        let metadata = self.way.as_ref()?.merge.metadata();
        metadata.module(self.owner.process, address).map(|module| module.path.clone())
    }

    pub fn account(&self) -> Option<casper_account> {
        let damage = self.way.as_ref()?.merge.damage();
        Some(casper_account {
            read: self.read,
            dropped: damage.lost.dropped,
            overwritten: damage.lost.overwritten,
            no_buffer: damage.lost.no_buffer,
            disk: damage.lost.disk,
            missing: damage.missing_events,
            damaged_bytes: damage.skipped_bytes.saturating_add(damage.cut_bytes),
            finished: i32::from(damage.finished),
        })
    }

    /// Keep a text until the next record, and point to it.
    pub fn lend(&mut self, text: Option<String>) -> *const c_char {
        let Some(text) = text else { return ptr::null() };
        let text = c_text(&text);
        // Whoever asks for the same again gets the same: a loop does not fill the memory.
        if let Some(known) = self.lent.iter().find(|known| **known == text) {
            return known.as_ptr();
        }
        self.lent.push(text);
        self.lent.last().map_or(ptr::null(), |text| text.as_ptr())
    }
}

impl Way {
    fn open(path: &Path) -> Result<Way, ReadError> {
        let trace = Box::into_raw(Box::new(Trace::open(path)?));
        // SAFETY: valid until `drop`, which frees it after the merge that borrows it.
        let borrowed: &'static Trace = unsafe { &*trace };
        match borrowed.merge() {
            Ok(merge) => Ok(Way { merge: ManuallyDrop::new(merge), trace }),
            Err(error) => {
                // SAFETY: from Box::into_raw above, and nothing borrows it any more.
                drop(unsafe { Box::from_raw(trace) });
                Err(error)
            }
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // SAFETY: dropped only here.
        unsafe { ManuallyDrop::drop(&mut self.merge) };
        // SAFETY: from Box::into_raw in `open`, freed only here; what borrowed it is gone.
        drop(unsafe { Box::from_raw(self.trace) });
    }
}

/// As C has it: up to the first NUL.
fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}
