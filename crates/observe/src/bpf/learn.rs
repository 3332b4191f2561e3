// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Learns the offset of a task's tgid and where a fork begins by watching this process, so that neither
//! BTF nor a table of kernel versions is needed.

use std::os::unix::process::CommandExt;
use std::process::Command;

use aya::maps::{Array, MapData};
use aya::{EbpfLoader, include_bytes_aligned};
use zerocopy::FromBytes;

use super::attach::attach;
use super::error::BpfError;
use super::record::cowlab_learned;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/learn.bpf.o"));
const BYTES: usize = size_of::<cowlab_learned>();
/// Other threads of this process may create threads and forks meanwhile.
const TRIES: usize = 8;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Learned {
    /// Offset of `tgid` in task_struct.
    pub tgid_offset: Option<u32>,
    /// `None` if neither occurs during a fork (Linux before 5.11, or without the tracepoints).
    pub anchor: Option<Anchor>,
}

/// What shows that a fork begins to copy memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// percpu_alloc_percpu: this caller allocates per-CPU memory for a new mm (since Linux 6.2).
    Allocation(u64),
    /// mmap_lock_start_locking of the parent's memory and then of the child's. Costs more: others take
    /// these locks too.
    Locks,
}

/// Which events may show the beginning of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anchors {
    /// The first of [`Anchor`]'s that this kernel shows.
    #[default]
    All,
    /// As on a kernel that allocates nothing per CPU.
    Locks,
}

/// Watches two threads and two forks of this process.
pub(crate) fn learn(anchors: Anchors) -> Result<Learned, BpfError> {
    let own = std::process::id();
    let mut ebpf = EbpfLoader::new()
        .btf(None)
        .override_global("own_tgid", &own, true)
        .load(OBJECT)
        .map_err(|error| BpfError::kernel("loading what learns", &error))?;
    attach(&mut ebpf, "learn_task", "task_newtask")?;
    // Not on every kernel; without them forks have no stop time.
    let sites =
        anchors == Anchors::All && attach(&mut ebpf, "learn_site", "percpu_alloc_percpu").is_ok();
    let locks = attach(&mut ebpf, "learn_locks", "mmap_lock_start_locking").is_ok();
    let map = ebpf.take_map("learned").expect("learn.bpf.c has it");
    let mut map: Array<MapData, [u8; BYTES]> = Array::try_from(map)
        .map_err(|error| BpfError::kernel("reading what was learned", &error))?;
    let tgid_offset = twice(|| offset(&mut map, own));
    let mut anchor = None;
    if sites {
        anchor = twice(|| fork(&mut map)?.allocation());
    }
    if anchor.is_none() && locks {
        anchor = twice(|| fork(&mut map)?.locks());
    }
    Ok(Learned { tgid_offset, anchor })
}

/// What two attempts in a row agree on.
fn twice<T: PartialEq>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut before = None;
    for _ in 0..TRIES {
        let now = look();
        if now.is_some() && now == before {
            return now;
        }
        before = now;
    }
    None
}

fn cleared(map: &mut Array<MapData, [u8; BYTES]>) -> Option<()> {
    map.set(0, [0; BYTES], 0).ok()
}

fn read(map: &Array<MapData, [u8; BYTES]>) -> Option<cowlab_learned> {
    cowlab_learned::read_from_bytes(&map.get(&0, 0).ok()?).ok()
}

/// Where a new thread's pid and tgid stand next to each other in its task_struct.
fn offset(map: &mut Array<MapData, [u8; BYTES]>, own: u32) -> Option<u32> {
    cleared(map)?;
    let tid =
        std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned())
            .join()
            .ok()?;
    let learned = read(map)?;
    if learned.threads != 1 || learned.task_failed != 0 {
        return None;
    }
    find_tgid(&learned.task, tid, own)
}

/// The offset of `tgid` in a task_struct; `None` unless there is exactly one place for both.
fn find_tgid(task: &[u8], tid: u32, tgid: u32) -> Option<u32> {
    let pair = [tid.to_ne_bytes(), tgid.to_ne_bytes()].concat();
    let mut places = (0..task.len().saturating_sub(pair.len()))
        .step_by(4)
        .filter(|at| task[*at..*at + pair.len()] == pair[..]);
    let (first, second) = (places.next()?, places.next());
    second.is_none().then_some(first as u32 + 4)
}

fn fork(map: &mut Array<MapData, [u8; BYTES]>) -> Option<cowlab_learned> {
    cleared(map)?;
    // With a user id the library forks instead of spawning with shared memory; the child ends at once,
    // since there is nothing to execute.
    let same_user = rustix::process::getuid().as_raw();
    let _ = Command::new("/proc/self/nothing").uid(same_user).spawn();
    read(map).filter(|learned| learned.forks == 1)
}

impl cowlab_learned {
    /// The first per-CPU allocation.
    fn allocation(&self) -> Option<Anchor> {
        (self.sites > 0).then_some(Anchor::Allocation(self.site[0]))
    }

    /// The last two locks are of different memory.
    fn locks(&self) -> Option<Anchor> {
        let [parent, child] = self.locked;
        (parent != 0 && child != 0 && parent != child).then_some(Anchor::Locks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(pairs: &[(usize, u32, u32)]) -> Vec<u8> {
        let mut task = vec![0; 256];
        for (at, first, second) in pairs {
            task[*at..*at + 4].copy_from_slice(&first.to_ne_bytes());
            task[*at + 4..*at + 8].copy_from_slice(&second.to_ne_bytes());
        }
        task
    }

    #[test]
    fn the_tgid_stands_behind_the_pid() {
        assert_eq!(find_tgid(&task(&[(40, 7, 5)]), 7, 5), Some(44));
        assert_eq!(find_tgid(&task(&[(40, 7, 6)]), 7, 5), None, "another process's");
        assert_eq!(find_tgid(&task(&[(40, 7, 5), (80, 7, 5)]), 7, 5), None, "two places");
        assert_eq!(find_tgid(&[], 7, 5), None);
    }

    #[test]
    fn one_odd_look_is_not_believed() {
        let mut looks = [Some(1), None, Some(2), Some(3), Some(3)].into_iter();
        assert_eq!(twice(|| looks.next().flatten()), Some(3));
        assert_eq!(twice(|| None::<u32>), None);
    }
}
