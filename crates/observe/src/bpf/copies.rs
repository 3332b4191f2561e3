// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The copies that the programs of `copies.h` record, and how many they record.

use std::fs::File;
use std::io::Write as _;

use aya::maps::{Array, HashMap, Map, MapData, MapError, RingBuf};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::decode::Copied;
use super::error::BpfError;

/// `struct cowlab_sampling`: every, learner, copy_gfp, doubling, told, unused.
type Sampling = [u32; 6];

pub(super) struct Copies {
    ring: RingBuf<MapData>,
    sampling: Array<MapData, Sampling>,
    stacks: HashMap<MapData, u32, u64>,
}

impl Copies {
    pub(super) fn new(take: &mut impl FnMut(&'static str) -> Map) -> Result<Copies, BpfError> {
        Ok(Copies {
            ring: RingBuf::try_from(take("copies")).map_err(making)?,
            sampling: Array::try_from(take("sampling")).map_err(making)?,
            stacks: HashMap::try_from(take("stacks")).map_err(making)?,
        })
    }

    /// Makes one copy here to learn how an allocation for a copy looks. If the programs do not see it,
    /// they take every page allocation of a program for one.
    pub(super) fn learn(&mut self) -> Result<(), BpfError> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        self.set([0, tid, 0, 0, 0, 0])?;
        copy_one_page()
            .map_err(|error| BpfError::kernel("copying a page to learn from", &error))?;
        self.tell(0, None)
    }

    pub(super) fn tell(&mut self, every: u32, doubling: Option<u32>) -> Result<(), BpfError> {
        let [_, _, gfp, ..] = self.sampling.get(&0, 0).map_err(telling)?;
        self.set([every, 0, gfp, doubling.unwrap_or(0), 0, 0])
    }

    pub(super) fn every(&self) -> Option<u32> {
        self.sampling.get(&0, 0).ok().map(|[every, ..]| every)
    }

    fn set(&mut self, sampling: Sampling) -> Result<(), BpfError> {
        self.sampling.set(0, sampling, 0).map_err(telling)
    }

    pub(super) fn stack_starts(&mut self, tid: u32, start: u64, is_guess: bool) {
        const NOEXIST: u64 = 1;
        // Without it the programs search for the end themselves.
        let _ = self.stacks.insert(tid, start, if is_guess { NOEXIST } else { 0 });
    }

    pub(super) fn read(&mut self, most: usize) -> Vec<Copied> {
        let mut copies = Vec::new();
        while copies.len() < most
            && let Some(record) = self.ring.next()
        {
            copies.extend(Copied::decode(&record));
        }
        copies
    }
}

/// Reads and then writes a page of a private file mapping.
#[allow(unsafe_code)]
fn copy_one_page() -> std::io::Result<()> {
    let name = c"cowlab";
    let mut file = File::from(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?);
    let bytes = rustix::param::page_size();
    file.write_all(&vec![1; bytes])?;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a mapping of our own at an address that the kernel chooses, accessed within its bounds by
    // volatile accesses, and unmapped at the end.
    unsafe {
        let page = mmap(std::ptr::null_mut(), bytes, protection, flags, &file, 0)?;
        let byte = page.cast::<u8>();
        byte.write_volatile(byte.read_volatile());
        munmap(page, bytes)?;
    }
    Ok(())
}

fn making(error: MapError) -> BpfError {
    BpfError::kernel("making the maps", &error)
}

fn telling(error: MapError) -> BpfError {
    BpfError::kernel("setting how many copies are told", &error)
}
