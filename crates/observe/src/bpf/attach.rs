// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attaches one program.

use aya::Ebpf;
use aya::programs::{ProgramError, RawTracePoint};

use super::error::{BpfError, chain};

/// Loads one program and attaches it.
pub(super) fn attach(
    ebpf: &mut Ebpf,
    name: &str,
    tracepoint: &'static str,
) -> Result<(), BpfError> {
    let program: &mut RawTracePoint = ebpf
        .program_mut(name)
        .expect("the object has it")
        .try_into()
        .map_err(|error: ProgramError| BpfError::kernel("looking for a program", &error))?;
    program.load().map_err(|error| refused("loading a program", &error))?;
    program
        .attach(tracepoint)
        .map(|_| ())
        .map_err(|error| BpfError::NoTracepoint { tracepoint, reason: chain(&error) })
}

/// Tells a missing right from other errors.
pub(super) fn refused(what: &'static str, error: &(dyn std::error::Error + 'static)) -> BpfError {
    match errno_of(error) {
        Some(EPERM | EACCES) => BpfError::NotAllowed(format!(
            "bpf(2) is refused although the capabilities are there ({}): a seccomp filter or a \
             security module forbids it; a container needs CAP_BPF and CAP_PERFMON and a seccomp \
             profile that allows bpf",
            chain(error)
        )),
        _ => BpfError::kernel(what, error),
    }
}

const EPERM: i32 = 1;
pub(super) const E2BIG: i32 = 7;
const EACCES: i32 = 13;
pub(super) const EEXIST: i32 = 17;

/// The errno behind an error of the loader.
pub(super) fn errno_of(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut error = Some(error);
    while let Some(now) = error {
        if let Some(code) = now.downcast_ref::<std::io::Error>().and_then(|e| e.raw_os_error()) {
            return Some(code);
        }
        error = now.source();
    }
    None
}
