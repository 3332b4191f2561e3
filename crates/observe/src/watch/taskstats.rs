// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time that a process spent in copies, as the kernel accounts it: taskstats over generic netlink
//! (kernel: Documentation/accounting/taskstats.rst). Needs CAP_NET_ADMIN, delay accounting switched
//! on before the process started, and Linux 5.19.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use serde::{Deserialize, Serialize};

/// Of linux/netlink.h, linux/genetlink.h and linux/taskstats.h; a test asks the C compiler.
const HEADER_BYTES: usize = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_TGID: u16 = 2;
const TASKSTATS_TYPE_AGGR_TGID: u16 = 5;
const TASKSTATS_TYPE_STATS: u16 = 3;
/// The version of struct taskstats that has the two fields, and where they are.
const WPCOPY_VERSION: u16 = 13;
/// In this one they lie elsewhere: longest and shortest delays came between, and went to the end in the
/// next.
const MOVED_VERSION: u16 = 15;
const WPCOPY_COUNT: usize = 400;
const WPCOPY_DELAY_TOTAL: usize = 408;

/// What copies took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyDelays {
    /// Write-protection faults, re-uses among them.
    pub count: u64,
    /// The time in them.
    pub total_ns: u64,
}

/// A socket to the kernel.
#[derive(Debug)]
pub(super) struct Taskstats {
    socket: OwnedFd,
    family: u16,
}

impl Taskstats {
    /// Opens it; why not, else.
    pub(super) fn open() -> Result<Taskstats, String> {
        let failed = |error: Errno| format!("a netlink socket: {error}");
        let (domain, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(domain, kind, SocketFlags::CLOEXEC, Some(netlink::GENERIC))
            .map_err(failed)?;
        let mut taskstats = Taskstats { socket, family: GENL_ID_CTRL };
        let answer = taskstats
            .ask(CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0")
            .map_err(|_| "a kernel with CONFIG_TASKSTATS".to_owned())?;
        let id = attribute(&answer, CTRL_ATTR_FAMILY_ID).and_then(|id| id.first_chunk::<2>());
        taskstats.family = u16::from_ne_bytes(*id.ok_or("a kernel with CONFIG_TASKSTATS")?);
        match taskstats.of_process(std::process::id()) {
            Err(Errno::PERM) => Err("root, or CAP_NET_ADMIN".to_owned()),
            Err(error) => Err(format!("taskstats answers {error}")),
            Ok(None) => Err("Linux 5.19 (taskstats with wpcopy_count), not with version 15 of it \
                             (6.14 and 6.15 before they were mended)"
                .to_owned()),
            Ok(Some(_)) => Ok(taskstats),
        }
    }

    /// The sums over a process's threads.
    pub(super) fn of_process(&self, pid: u32) -> Result<Option<CopyDelays>, Errno> {
        let answer = self.ask(TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_TGID, &pid.to_ne_bytes())?;
        Ok(decode(&answer))
    }

    /// The attributes of the answer.
    fn ask(&self, command: u8, attribute: u16, value: &[u8]) -> Result<Vec<u8>, Errno> {
        send(&self.socket, &request(self.family, command, attribute, value), SendFlags::empty())?;
        let mut bytes = vec![0; 4096];
        let (_, length) = recv(&self.socket, &mut bytes[..], RecvFlags::empty())?;
        bytes.truncate(length);
        let kind = bytes.get(4..6).and_then(|kind| kind.first_chunk::<2>());
        if kind.is_some_and(|kind| u16::from_ne_bytes(*kind) == NLMSG_ERROR) {
            let code = bytes.get(16..20).and_then(|code| code.first_chunk::<4>());
            let code = code.map_or(0, |code| i32::from_ne_bytes(*code));
            return Err(Errno::from_raw_os_error(-code));
        }
        bytes.get(HEADER_BYTES..).map(<[u8]>::to_vec).ok_or(Errno::BADMSG)
    }
}

/// A request with one attribute.
fn request(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(family.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port: one question at a time needs neither.
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}

/// The value of the first attribute of that type.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (length, kind) =
            (bytes.get(..2)?.first_chunk::<2>()?, bytes.get(2..4)?.first_chunk::<2>()?);
        let (length, kind) = (usize::from(u16::from_ne_bytes(*length)), u16::from_ne_bytes(*kind));
        let value = bytes.get(4..length)?;
        // The two highest bits are flags.
        if kind & 0x3fff == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4).max(4)..)?;
    }
}

fn decode(attributes: &[u8]) -> Option<CopyDelays> {
    let stats = attribute(attribute(attributes, TASKSTATS_TYPE_AGGR_TGID)?, TASKSTATS_TYPE_STATS)?;
    let version = u16::from_ne_bytes(*stats.first_chunk::<2>()?);
    let field = |at: usize| Some(u64::from_ne_bytes(*stats.get(at..at + 8)?.first_chunk::<8>()?));
    if version < WPCOPY_VERSION || version == MOVED_VERSION {
        return None;
    }
    Some(CopyDelays { count: field(WPCOPY_COUNT)?, total_ns: field(WPCOPY_DELAY_TOTAL)? })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_numbers_are_the_headers() {
        let source = format!(
            "#include <stddef.h>\n#include <linux/genetlink.h>\n#include <linux/taskstats.h>\n\
             _Static_assert(GENL_ID_CTRL == {GENL_ID_CTRL} && CTRL_CMD_GETFAMILY == {CTRL_CMD_GETFAMILY}\
             && CTRL_ATTR_FAMILY_ID == {CTRL_ATTR_FAMILY_ID} && CTRL_ATTR_FAMILY_NAME == {CTRL_ATTR_FAMILY_NAME}\
             && TASKSTATS_CMD_GET == {TASKSTATS_CMD_GET} && TASKSTATS_CMD_ATTR_TGID == {TASKSTATS_CMD_ATTR_TGID}\
             && TASKSTATS_TYPE_AGGR_TGID == {TASKSTATS_TYPE_AGGR_TGID}\
             && TASKSTATS_TYPE_STATS == {TASKSTATS_TYPE_STATS}, \"numbers\");\n\
             #if TASKSTATS_VERSION >= {WPCOPY_VERSION} && TASKSTATS_VERSION != {MOVED_VERSION}\n\
             _Static_assert(offsetof(struct taskstats, wpcopy_count) == {WPCOPY_COUNT}\
             && offsetof(struct taskstats, wpcopy_delay_total) == {WPCOPY_DELAY_TOTAL}, \"fields\");\n\
             #endif\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("numbers.c");
        std::fs::write(&file, source).unwrap();
        let out =
            Command::new("cc").args(["-std=c11", "-fsyntax-only"]).arg(&file).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    #[test]
    fn nested_attributes_are_found_and_cut_ones_are_not() {
        let mut stats = vec![0; 416];
        stats[..2].copy_from_slice(&13_u16.to_ne_bytes());
        stats[400..408].copy_from_slice(&7_u64.to_ne_bytes());
        stats[408..416].copy_from_slice(&9_000_u64.to_ne_bytes());
        let wrap = |kind: u16, value: &[u8]| {
            let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes
        };
        let nested = [wrap(2, &[1, 0, 0, 0]), wrap(TASKSTATS_TYPE_STATS, &stats)].concat();
        let answer = wrap(TASKSTATS_TYPE_AGGR_TGID, &nested);
        assert_eq!(decode(&answer), Some(CopyDelays { count: 7, total_ns: 9_000 }));
        for cut in 0..answer.len() {
            assert_eq!(decode(&answer[..cut]), None, "{cut}");
        }
        stats[..2].copy_from_slice(&10_u16.to_ne_bytes());
        let old = wrap(TASKSTATS_TYPE_AGGR_TGID, &wrap(TASKSTATS_TYPE_STATS, &stats));
        assert_eq!(decode(&old), None);
        assert_eq!(request(16, 3, 2, b"x\0").len(), 28);
    }

    #[test]
    fn this_kernel_answers_or_says_what_it_needs() {
        match Taskstats::open() {
            Ok(taskstats) => assert!(taskstats.of_process(std::process::id()).unwrap().is_some()),
            Err(reason) => assert!(!reason.is_empty()),
        }
    }
}
