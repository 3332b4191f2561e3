// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a process could not be read.

use std::path::PathBuf;

use crate::root::ReadError;

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error(
        "there is no process {pid}: it has ended, or never was; `cowlab` lists those that fork"
    )]
    NoSuchProcess { pid: i32 },
    #[error("process {pid} ended while it was looked at")]
    Vanished { pid: i32 },
    #[error("process {pid} executed another program while it was looked at")]
    Executed { pid: i32 },
    #[error("process {pid} ({name}) has no memory of its own: it is a kernel thread or a zombie")]
    NoMemory { pid: i32, name: String },
    #[error(
        "process {pid}: {} may not be read: run as root, as uid {uid}, or with CAP_SYS_PTRACE \
         (where it is so already, a container or a security module forbids it)",
        path.display()
    )]
    NoPermission { pid: i32, path: PathBuf, uid: u32 },
    #[error("this kernel has no {}: it needs CONFIG_PROC_PAGE_MONITOR", path.display())]
    Unsupported { path: PathBuf },
    #[error(transparent)]
    Read(#[from] ReadError),
}
