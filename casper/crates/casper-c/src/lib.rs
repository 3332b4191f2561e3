// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C side of reading traces: casper/libcasper/include/casper_read.h, which says what each function
//! does. A panic does not leave it.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // casper_read.h is their documentation

mod handle;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use cowlab_casper::read::Value;

use handle::Handle;

const ENOENT: c_int = 2;
const EIO: c_int = 5;
const EINVAL: c_int = 22;
const EDOM: c_int = 33;

/// A handle, as C knows it.
#[allow(non_camel_case_types)]
pub struct casper_trace(Mutex<Handle>);

/// `struct casper_record`.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct casper_record {
    pub time_ns: u64,
    pub ticks: u64,
    pub event: *const c_void,
    pub event_bytes: usize,
    pub type_name: *const c_char,
    pub process: u32,
    pub pid: u32,
    pub tid: u32,
    pub stream: u32,
    pub level: u32,
    pub event_type: u16,
}

/// `struct casper_account`.
#[repr(C)]
#[derive(Default)]
#[allow(non_camel_case_types)]
pub struct casper_account {
    pub read: u64,
    pub dropped: u64,
    pub overwritten: u64,
    pub no_buffer: u64,
    pub disk: u64,
    pub missing: u64,
    pub damaged_bytes: u64,
    pub finished: c_int,
}

/// Run `act` on a handle; `failed` where there is none, or where it panics.
///
/// # Safety
/// `trace` is NULL or from `casper_open` and not closed.
unsafe fn with<T>(trace: *mut casper_trace, failed: T, act: impl FnOnce(&mut Handle) -> T) -> T {
    // SAFETY: as the function's own condition says. The Mutex keeps threads apart.
    let Some(trace) = (unsafe { trace.as_ref() }) else { return failed };
    let mut handle = trace.0.lock().unwrap_or_else(PoisonError::into_inner);
    match catch_unwind(AssertUnwindSafe(|| act(&mut handle))) {
        Ok(result) => result,
        Err(_) => {
            handle.fail("the reader failed: this is a bug of cowlab");
            failed
        }
    }
}

/// The text that C points to; `None` where it is no UTF-8, or NULL.
///
/// # Safety
/// `text` is NULL or ends with a NUL.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not NULL, and ended by a NUL as the caller says.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_open(path: *const c_char) -> *mut casper_trace {
    let path = if path.is_null() {
        None
    } else {
        // SAFETY: not NULL; the caller ends it with a NUL.
        Some(unsafe { CStr::from_ptr(path) }.to_bytes())
    };
    let opened = catch_unwind(|| Handle::open(path))
        .unwrap_or_else(|_| Handle::broken("the reader failed: this is a bug of cowlab"));
    Box::into_raw(Box::new(casper_trace(Mutex::new(opened))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_error(trace: *mut casper_trace) -> *const c_char {
    const NONE: &CStr = c"there is no trace: casper_open returned NULL";
    // SAFETY: the caller's.
    unsafe { with(trace, NONE.as_ptr(), |handle| handle.error()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_next(
    trace: *mut casper_trace,
    record: *mut casper_record,
) -> c_int {
    if record.is_null() {
        return -EINVAL;
    }
    // SAFETY: the caller's.
    let result = unsafe { with(trace, Err(()), |handle| handle.next()) };
    match result {
        Ok(Some(next)) => {
            // SAFETY: not NULL, and the caller's to write to.
            unsafe { record.write(next) };
            1
        }
        Ok(None) => 0,
        Err(()) => -EIO,
    }
}

/// Convert the value of a field of the current record.
///
/// # Safety
/// As `with` and `text`; `into` is NULL or may be written.
unsafe fn number<T>(
    trace: *mut casper_trace,
    field: *const c_char,
    into: *mut T,
    convert: impl Fn(&Value<'_>) -> Option<T>,
) -> c_int {
    // SAFETY: the caller's.
    let Some(field) = (unsafe { text(field) }) else { return -EINVAL };
    if into.is_null() {
        return -EINVAL;
    }
    // SAFETY: the caller's.
    let value = unsafe {
        with(trace, Err(-EIO), |handle| {
            let value = handle.value(field).ok_or(-ENOENT)?;
            convert(&value).ok_or(-EDOM)
        })
    };
    match value {
        Ok(value) => {
            // SAFETY: not NULL, and the caller's to write to.
            unsafe { into.write(value) };
            0
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_unsigned(
    trace: *mut casper_trace,
    field: *const c_char,
    value: *mut u64,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { number(trace, field, value, |value| value.unsigned()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_signed(
    trace: *mut casper_trace,
    field: *const c_char,
    value: *mut i64,
) -> c_int {
    let signed = |value: &Value<'_>| match *value {
        Value::Signed(value) => Some(value),
        Value::Unsigned(value) | Value::Address(value) => i64::try_from(value).ok(),
        _ => None,
    };
    // SAFETY: the caller's.
    unsafe { number(trace, field, value, signed) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_float(
    trace: *mut casper_trace,
    field: *const c_char,
    value: *mut f64,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { number(trace, field, value, |value| value.number()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_text(
    trace: *mut casper_trace,
    field: *const c_char,
) -> *const c_char {
    // SAFETY: the caller's.
    let Some(field) = (unsafe { text(field) }) else { return std::ptr::null() };
    let act = |handle: &mut Handle| {
        let value = handle.value(field).map(|value| value.to_string());
        handle.lend(value)
    };
    // SAFETY: the caller's.
    unsafe { with(trace, std::ptr::null(), act) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_field_name(
    trace: *mut casper_trace,
    number: c_uint,
) -> *const c_char {
    let act = |handle: &mut Handle| {
        let name = handle.field(number as usize).map(|field| field.name.clone());
        handle.lend(name)
    };
    // SAFETY: the caller's.
    unsafe { with(trace, std::ptr::null(), act) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_field_unit(
    trace: *mut casper_trace,
    number: c_uint,
) -> *const c_char {
    let act = |handle: &mut Handle| {
        let unit = handle.field(number as usize).map(|field| field.unit.clone());
        handle.lend(unit)
    };
    // SAFETY: the caller's.
    unsafe { with(trace, std::ptr::null(), act) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_module(trace: *mut casper_trace, address: u64) -> *const c_char {
    let act = |handle: &mut Handle| {
        let path = handle.module(address);
        handle.lend(path)
    };
    // SAFETY: the caller's.
    unsafe { with(trace, std::ptr::null(), act) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_account(
    trace: *mut casper_trace,
    account: *mut casper_account,
) -> c_int {
    if account.is_null() {
        return -EINVAL;
    }
    // SAFETY: the caller's.
    match unsafe { with(trace, None, |handle| handle.account()) } {
        Some(found) => {
            // SAFETY: not NULL, and the caller's to write to.
            unsafe { account.write(found) };
            0
        }
        None => -EIO,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn casper_close(trace: *mut casper_trace) {
    if trace.is_null() {
        return;
    }
    // SAFETY: from casper_open, and not used again.
    let trace = unsafe { Box::from_raw(trace) };
    let _ = catch_unwind(AssertUnwindSafe(move || drop(trace)));
}
