// SPDX-License-Identifier: Apache-2.0 OR MIT
//! /proc/PID/stat and /proc/PID/task/TID/stat (proc_pid_stat(5)).

use std::fmt::Display;
use std::fs;

use procfs_core::FromRead;

/// A thread is about to end (kernel: include/linux/sched.h).
const PF_EXITING: u32 = 4;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stat {
    /// At most 15 bytes of any kind; non-UTF-8 is replaced.
    pub name: String,
    /// R, S, D, T, Z, …
    pub state: char,
    /// The parent's PID; 0 if it is outside this namespace.
    pub parent: i32,
    pub flags: u32,
    /// Its own, without its children's.
    pub minor_faults: u64,
    /// Of children that were waited for.
    pub reaped_minor_faults: u64,
    /// In ticks of 1/100 s since boot. Together with the PID it identifies a process until the next
    /// boot.
    pub start_ticks: u64,
    /// 0 for a kernel thread.
    pub mapped_bytes: u64,
    /// Where its stack begins; 0 if that may not be read.
    pub stack: u64,
    pub last_cpu: Option<usize>,
}

impl Stat {
    /// `None` if there is no such process.
    pub fn read(pid: impl Display) -> Option<Stat> {
        Stat::decode(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `None` if there is no such thread.
    pub fn read_thread(pid: impl Display, tid: impl Display) -> Option<Stat> {
        Stat::decode(&fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
    }

    /// Threads of `pid`, without the first, that run or are runnable.
    pub fn other_running_threads(pid: i32) -> u32 {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let others = tasks.map(|task| task.file_name().to_string_lossy().into_owned());
        let others = others.filter(|tid| *tid != pid.to_string());
        let stats = others.filter_map(|tid| Stat::read_thread(pid, tid));
        stats.filter(|stat| stat.state == 'R').count() as u32
    }

    /// `None` if the text is cut or malformed.
    pub fn decode(text: &[u8]) -> Option<Stat> {
        // procfs-core indexes beside the brackets, after trimming. The name may contain brackets,
        // blanks and newlines; the last bracket ends it.
        let open = text.iter().position(|byte| *byte == b'(')?;
        let close = text.iter().rposition(|byte| *byte == b')').filter(|close| open < *close)?;
        let (pid, rest) = (text[..open].strip_suffix(b" ")?, text[close + 1..].strip_prefix(b" ")?);
        let is_whole = pid.first().is_some_and(u8::is_ascii_digit)
            && rest.first().is_some_and(u8::is_ascii_alphabetic)
            && rest.ends_with(b"\n");
        let stat =
            is_whole.then(|| procfs_core::process::Stat::from_read(text)).and_then(Result::ok)?;
        Some(Stat {
            name: stat.comm,
            state: stat.state,
            parent: stat.ppid,
            flags: stat.flags,
            minor_faults: stat.minflt,
            reaped_minor_faults: stat.cminflt,
            start_ticks: stat.starttime,
            mapped_bytes: stat.vsize,
            stack: stat.startstack,
            last_cpu: stat.processor.and_then(|cpu| cpu.try_into().ok()),
        })
    }

    /// Only the minor faults and resident pages of a living process, for frequent reads of many. `None`
    /// if the text is cut or malformed.
    pub fn faults_and_pages(text: &[u8]) -> Option<(u64, u64)> {
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let mut fields = text.get(close + 2..)?.split(|byte| *byte == b' ');
        if matches!(fields.next()?, b"Z" | b"X" | b"x") {
            return None;
        }
        let number = |field| std::str::from_utf8(field).ok()?.parse().ok();
        // Fields 10 and 24; the state is the third.
        Some((number(fields.nth(6)?)?, number(fields.nth(13)?)?))
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// It has ended or is about to: a thread is marked some time before it is a zombie.
    pub fn is_ending(&self) -> bool {
        self.has_ended() || self.flags & PF_EXITING != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &[u8], state: &str) -> Vec<u8> {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        [b"7 (", name, format!(") {state} {}\n", fields.join(" ")).as_bytes()].concat()
    }

    #[test]
    fn a_name_may_hold_anything() {
        for name in [
            "sh", "a b", "a) S (b", ") R 1 1", "((((", "))))", "a\nb", ") S 1\n", "\n", "", "é ü",
            " ",
        ] {
            let stat = Stat::decode(&text(name.as_bytes(), "S")).unwrap();
            assert_eq!((stat.name.as_str(), stat.state, stat.parent), (name, 'S', 4), "{name:?}");
            assert_eq!((stat.minor_faults, stat.reaped_minor_faults), (10, 11), "{name:?}");
            let [alive, ended] =
                ["S", "Z"].map(|state| Stat::faults_and_pages(&text(name.as_bytes(), state)));
            assert_eq!((alive, ended), (Some((10, 24)), None), "{name:?}");
        }
        assert_eq!(Stat::decode(&text(b"a\xff)\xfe", "S")).unwrap().name, "a\u{fffd})\u{fffd}");
    }

    #[test]
    fn fields_are_where_the_manual_has_them() {
        let stat = Stat::decode(&text(b"x", "Z")).unwrap();
        assert_eq!((stat.flags, stat.start_ticks, stat.mapped_bytes), (9, 22, 23));
        assert_eq!((stat.stack, stat.last_cpu), (28, Some(39)));
        assert!(stat.has_ended() && stat.is_ending());
        let running = Stat { flags: 0, state: 'R', ..stat };
        assert!(!running.has_ended() && !running.is_ending());
        assert!(Stat { flags: PF_EXITING, ..running }.is_ending());
    }

    #[test]
    fn a_text_cut_anywhere_is_refused() {
        for name in [&b"a) S (b"[..], b") S\n", b"\xff)\xff(", b"("] {
            let whole = text(name, "S");
            for cut in 0..whole.len() {
                assert_eq!(Stat::decode(&whole[..cut]), None, "{name:?} {cut}");
            }
        }
        for foreign in [
            &b"(a) S 1\n"[..],
            b"7(a) S 1\n",
            b"7 (a)S 1\n",
            b"7 (a) S 1\n",
            b")(\n",
            b"7 a) S (1\n",
            b" (a) S 1\n",
            b"7 (a) \n",
        ] {
            assert_eq!(Stat::decode(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn this_process_is_there_and_nobody_is_not() {
        let pid = std::process::id() as i32;
        let stat = Stat::read(pid).unwrap();
        assert!(stat.start_ticks > 0 && stat.mapped_bytes > 0 && !stat.is_ending());
        assert_eq!(Stat::read_thread(pid, pid).unwrap().start_ticks, stat.start_ticks);
        assert_eq!(Stat::read(i32::MAX), None);
    }
}
