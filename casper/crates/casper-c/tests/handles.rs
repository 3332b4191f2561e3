// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What C is lent stays as long as casper_read.h says, whether the trace is whole, cut or changed.
//! `make miri` runs this in Miri, which sees a pointer that outlived what it points to.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, thread};

use casperread::*;

/// What page_faults.rs writes.
const TRACE: &[u8] = include_bytes!("page_faults.casper");

/// A handle that may go to another thread, as casper_read.h says.
struct Handle(*mut casper_trace);

// SAFETY: the functions that take it wait for each other.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn open(path: &Path) -> Handle {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: ends with a NUL.
        Handle(unsafe { casper_open(path.as_ptr()) })
    }

    /// Of a file of these bytes; it stays readable by the handle.
    fn of(trace: &[u8]) -> Handle {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(trace).unwrap();
        Handle::open(file.path())
    }

    fn error(&self) -> Option<String> {
        // SAFETY: of this handle, which is open.
        copied(unsafe { casper_error(self.0) })
    }

    fn next(&self) -> Result<Option<casper_record>, i32> {
        let mut record = MaybeUninit::uninit();
        // SAFETY: of this handle, which is open; the record may be written.
        match unsafe { casper_next(self.0, record.as_mut_ptr()) } {
            // SAFETY: 1 says that there is a record.
            1 => Ok(Some(unsafe { record.assume_init() })),
            0 => Ok(None),
            error => Err(error),
        }
    }

    /// All that can be asked of a record; everything lent is read at the end.
    fn ask(&self, record: &casper_record) -> Vec<String> {
        let mut lent = Vec::new();
        let mut numbers = Vec::new();
        for (number, name) in (0..).map_while(|number| {
            // SAFETY: of this handle, which is open.
            let name = unsafe { casper_field_name(self.0, number) };
            (!name.is_null()).then_some((number, name))
        }) {
            let (mut unsigned, mut signed, mut float) = (0, 0, 0.0);
            // SAFETY: of this handle, which is open; the name is lent until the next record.
            unsafe {
                lent.push(name);
                lent.push(casper_field_unit(self.0, number));
                lent.push(casper_text(self.0, name));
                if casper_unsigned(self.0, name, &raw mut unsigned) == 0 {
                    lent.push(casper_module(self.0, unsigned));
                    numbers.push(unsigned.to_string());
                }
                if casper_signed(self.0, name, &raw mut signed) == 0 {
                    numbers.push(signed.to_string());
                }
                if casper_float(self.0, name, &raw mut float) == 0 {
                    numbers.push(float.to_string());
                }
            }
        }
        lent.push(record.type_name);
        // SAFETY: the event's bytes are lent until the next record.
        let event =
            unsafe { std::slice::from_raw_parts(record.event.cast::<u8>(), record.event_bytes) };
        assert_eq!(record.event.align_offset(16), 0);
        numbers.push(event.iter().map(|byte| u64::from(*byte)).sum::<u64>().to_string());
        lent.into_iter().filter_map(copied).chain(numbers).collect()
    }

    /// Everything, to the end of the trace or an error.
    fn read_all(&self) -> Vec<Vec<String>> {
        let mut records = Vec::new();
        while let Ok(Some(record)) = self.next() {
            records.push(self.ask(&record));
        }
        let mut account = casper_account::default();
        // SAFETY: of this handle, which is open; the account may be written.
        if unsafe { casper_account(self.0, &raw mut account) } == 0 {
            assert_eq!(account.read, records.len() as u64);
        } else {
            assert!(self.error().is_some());
        }
        records
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: from casper_open, and closed only here.
        unsafe { casper_close(self.0) };
    }
}

/// A text that C has, copied.
fn copied(text: *const c_char) -> Option<String> {
    // SAFETY: what is not NULL is lent, and ends with a NUL.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[test]
fn everything_of_a_whole_trace_is_lent() {
    let handle = Handle::of(TRACE);
    assert_eq!(handle.error(), None);
    let records = handle.read_all();
    assert_eq!(records.len(), 5);
    assert!(records[0].contains(&"address".to_owned()), "{:?}", records[0]);
    assert!(records[0].contains(&"/bin/a".to_owned()), "{:?}", records[0]);
    assert!(records[0].contains(&"page-fault".to_owned()), "{:?}", records[0]);
}

#[test]
fn threads_share_a_handle() {
    let handle = Handle::of(TRACE);
    let seen: usize = thread::scope(|scope| {
        let count = || (0..).map_while(|_| handle.next().unwrap()).count();
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(seen, 5);
}

#[test]
fn a_cut_or_changed_trace_ends_or_is_refused() {
    // Not each byte, as Miri is slow; a prime, so that each record is hit at another place.
    for at in (0..TRACE.len()).step_by(61) {
        assert!(Handle::of(&TRACE[..at]).read_all().len() <= 5);
        let mut changed = TRACE.to_vec();
        changed[at] ^= 0x55;
        assert!(Handle::of(&changed).read_all().len() <= 5);
    }
}

#[test]
fn a_handle_of_no_trace_says_so() {
    let handle = Handle::open(Path::new("/nowhere/t.casper"));
    assert!(handle.next().is_err());
    assert!(handle.error().unwrap().contains("/nowhere/t.casper"));
    let none = ptr::null_mut();
    // SAFETY: each of them takes NULL.
    unsafe {
        assert!(copied(casper_error(none)).is_some());
        assert!(casper_next(none, ptr::null_mut()) < 0);
        assert!(casper_next(handle.0, ptr::null_mut()) < 0);
        assert!(casper_unsigned(handle.0, ptr::null(), ptr::null_mut()) < 0);
        assert!(casper_text(none, c"address".as_ptr()).is_null());
        assert!(casper_account(handle.0, ptr::null_mut()) < 0);
        casper_close(none);
        assert!(Handle(casper_open(ptr::null())).error().is_some());
    }
}
