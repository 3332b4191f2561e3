// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attaches the programs and reads their records.

use std::time::Duration;

use aya::maps::{MapData, MapError, PerCpuArray, PerCpuHashMap, RingBuf};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use cowlab_machine::Root;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::access::AccessFacts;
use super::attach::{E2BIG, EEXIST, attach, errno_of, refused};
use super::copies::Copies;
use super::decode::{Copied, Counts, CpuCounts, Event, Fault};
use super::error::BpfError;
use super::fault_rings::FaultRings;
use super::learn::{self, Anchor, Learned};
use super::programs::{FaultMode, ObserverSettings, Scope, wanted};
use super::record::{
    COWLAB_CALLS, COWLAB_COUNTS, COWLAB_LOST_COPIES, COWLAB_LOST_EVENTS, COWLAB_LOST_FAULTS,
    COWLAB_LOST_PROCESSES, cowlab_fault,
};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/observe.bpf.o"));

/// Threads that are known in copies mode.
const THREADS: u32 = 16384;

/// Records lost since the observer was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Forks, exits and execs that were not read soon enough.
    pub events: u64,
    /// Faults that were not read soon enough, in every-fault mode; still counted.
    pub faults: u64,
    pub processes: u64,
    /// Copies with stacks that were not read soon enough, in copies mode; still counted.
    pub copies: u64,
}

/// Attached programs. Once dropped or killed, nothing is left in the kernel.
pub struct Observer {
    settings: ObserverSettings,
    learned: Learned,
    events: RingBuf<MapData>,
    faults: Option<FaultRings>,
    copies: Option<Copies>,
    watched: PerCpuHashMap<MapData, u32, CpuCounts>,
    losses: PerCpuArray<MapData, u64>,
    calls: PerCpuArray<MapData, u64>,
    _programs: Ebpf,
}

impl Observer {
    /// Learns about the kernel and attaches what `settings` takes. [`BpfError::NotAllowed`] names
    /// the capability or setting that is missing.
    pub fn attach(settings: ObserverSettings) -> Result<Observer, BpfError> {
        AccessFacts::probe(&Root::default()).decide().map_err(BpfError::NotAllowed)?;
        // Before Linux 5.11 maps count as locked memory. If the limit may not be raised, it may still
        // suffice.
        let unlimited = Rlimit { current: None, maximum: None };
        let _ = setrlimit(Resource::Memlock, unlimited);
        let learned =
            if settings.events { learn::learn(settings.anchors)? } else { Learned::default() };
        let mut ebpf = load(&settings, &learned)?;
        let observer = |ebpf: &mut Ebpf, name| ebpf.take_map(name).expect("observe.bpf.c has it");
        let mut take = |name| observer(&mut ebpf, name);
        let events = RingBuf::try_from(take("events")).map_err(reading)?;
        let (rings, records) = (take("rings"), take("faults"));
        let faults = match settings.faults {
            FaultMode::Every => Some(FaultRings::map(&rings, &records, cpus()?, slots(&settings))?),
            _ => None,
        };
        let watched = PerCpuHashMap::try_from(take("watched")).map_err(reading)?;
        let losses = PerCpuArray::try_from(take("losses")).map_err(reading)?;
        let calls = PerCpuArray::try_from(take("calls")).map_err(reading)?;
        let copies = match settings.faults {
            FaultMode::Copies => Some(Copies::new(&mut take)?),
            _ => None,
        };
        for program in wanted(&settings, &learned) {
            attach(&mut ebpf, program.name, program.tracepoint)?;
        }
        let mut observer = Observer {
            settings,
            learned,
            events,
            faults,
            copies,
            watched,
            losses,
            calls,
            _programs: ebpf,
        };
        if observer.copies.is_some() {
            let own = std::process::id();
            observer.watch(own)?;
            observer.copies.as_mut().expect("it was just seen").learn()?;
            observer.forget(own);
        }
        Ok(observer)
    }

    /// In copies mode: record one copy in `every` from now on, and half as many after each `doubling`
    /// of them; 0 records none. All are counted.
    pub fn tell_copies(&mut self, every: u32, doubling: Option<u32>) -> Result<(), BpfError> {
        self.copies.as_mut().map_or(Ok(()), |copies| copies.tell(every, doubling))
    }

    /// In copies mode: one in so many copies is recorded now.
    pub fn told_every(&self) -> Option<u32> {
        self.copies.as_ref()?.every()
    }

    /// In copies mode: where a thread's stack begins, above which nothing is saved. Children inherit it
    /// from the forking thread; an exec changes it. A guess is not believed where that was seen.
    pub fn stack_starts(&mut self, tid: u32, start: u64, is_guess: bool) {
        if let Some(copies) = &mut self.copies {
            copies.stack_starts(tid, start, is_guess);
        }
    }

    /// At most `most` waiting copies, roughly in order. Like faults they wake nobody.
    pub fn read_copies(&mut self, most: usize) -> Vec<Copied> {
        self.copies.as_mut().map_or_else(Vec::new, |copies| copies.read(most))
    }

    /// What was learned of this kernel: whether forks have a stop time and a child.
    pub fn learned(&self) -> Learned {
        self.learned
    }

    pub fn settings(&self) -> &ObserverSettings {
        &self.settings
    }

    /// Watches a process and its descendants from now on.
    pub fn watch(&mut self, tgid: u32) -> Result<(), BpfError> {
        if nobody_is_listed(&self.settings) {
            return Ok(());
        }
        let zeros = aya::maps::PerCpuValues::try_from(vec![[0; COWLAB_COUNTS as usize]; cpus()?])
            .map_err(|error| BpfError::kernel("counting CPUs", &error))?;
        const KEEP_WHAT_IS_THERE: u64 = 1; // BPF_NOEXIST
        match self.watched.insert(tgid, zeros, KEEP_WHAT_IS_THERE) {
            Ok(()) => Ok(()),
            Err(error) => match errno_of(&error) {
                Some(EEXIST) => Ok(()),
                Some(E2BIG) => Err(BpfError::TooMany { limit: self.settings.processes }),
                _ => Err(BpfError::kernel("watching another process", &error)),
            },
        }
    }

    /// Stops watching a process and drops its counts.
    pub fn forget(&mut self, tgid: u32) {
        let _ = self.watched.remove(&tgid);
    }

    /// Waits for events, at most `at_most`.
    pub fn wait(&self, at_most: Duration) {
        let limit = Timespec {
            tv_sec: at_most.as_secs().cast_signed(),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        // A signal ends it early, so that the caller looks at its flags.
        let _ = poll(&mut [PollFd::new(&self.events, PollFlags::IN)], Some(&limit));
    }

    /// Passes each waiting event to `take`, oldest first, and returns their number.
    pub fn read_events(&mut self, take: impl FnMut(Event)) -> usize {
        self.read_some_events(usize::MAX, take)
    }

    /// Passes at most `most` waiting events to `take`, oldest first, and returns their number.
    pub fn read_some_events(&mut self, most: usize, mut take: impl FnMut(Event)) -> usize {
        let mut count = 0;
        while count < most
            && let Some(record) = self.events.next()
        {
            if let Some(event) = Event::decode(&record) {
                take(event);
                count += 1;
            }
        }
        count
    }

    /// Passes each waiting fault to `take`, in the machine's order, and returns their number. Call it
    /// every 100 ms or so: faults wake nobody, and a full ring loses some, which [`Observer::lost`]
    /// counts.
    pub fn read_faults(&mut self, take: impl FnMut(Fault)) -> usize {
        self.faults.as_mut().map_or(0, |faults| faults.read(take))
    }

    /// A process's faults since it is watched; `None` if faults are not counted or it is not watched.
    pub fn counts(&self, tgid: u32) -> Option<Counts> {
        if self.settings.faults == FaultMode::None {
            return None;
        }
        let of_cpus = self.watched.get(&tgid, 0).ok()?;
        Some(Counts::sum(of_cpus.iter()))
    }

    /// The system call that was made most, and how often; `None` where they are not counted.
    pub fn most_called(&self) -> Option<(u32, u64)> {
        let count = |number: u32| Some((number, self.calls.get(&number, 0).ok()?.iter().sum()));
        (0..COWLAB_CALLS).filter_map(count).max_by_key(|(_, count)| *count).filter(|of| of.1 > 0)
    }

    pub fn watched(&self) -> Vec<u32> {
        self.watched.keys().filter_map(Result::ok).collect()
    }

    pub fn lost(&self) -> Lost {
        let count = |what: u32| -> u64 {
            self.losses.get(&what, 0).map_or(0, |of_cpus| of_cpus.iter().sum())
        };
        Lost {
            events: count(COWLAB_LOST_EVENTS),
            faults: count(COWLAB_LOST_FAULTS),
            processes: count(COWLAB_LOST_PROCESSES),
            copies: count(COWLAB_LOST_COPIES),
        }
    }
}

/// Everything is watched and nothing counted: the table of watched processes, allocated for each CPU in
/// advance, is not needed.
fn nobody_is_listed(settings: &ObserverSettings) -> bool {
    settings.scope == Scope::Everything && settings.faults == FaultMode::None
}

/// Possible CPUs: each has a ring of faults.
pub fn cpus() -> Result<usize, BpfError> {
    aya::util::nr_cpus().map_err(|(_, error)| BpfError::kernel("counting CPUs", &error))
}

/// Records in a CPU's ring: a power of two, as the programs assume.
fn slots(settings: &ObserverSettings) -> u32 {
    let slots = settings.fault_ring_bytes / size_of::<cowlab_fault>() as u32;
    1 << slots.max(1).ilog2()
}

fn load(settings: &ObserverSettings, learned: &Learned) -> Result<Ebpf, BpfError> {
    let everything = u32::from(settings.scope == Scope::Everything);
    let offset = learned.tgid_offset.unwrap_or(0);
    let site = match learned.anchor {
        Some(Anchor::Allocation(site)) => site,
        Some(Anchor::Locks) | None => 0,
    };
    let (slots, rings) = match settings.faults {
        FaultMode::Every => (slots(settings), u32::try_from(cpus()?).unwrap_or(u32::MAX)),
        _ => (1, 1),
    };
    let by_copy = settings.faults == FaultMode::Copies;
    EbpfLoader::new()
        .btf(None)
        .override_global("tgid_offset", &offset, true)
        .override_global("fork_site", &site, true)
        .override_global("every_process", &everything, true)
        .override_global("ring_slots", &slots, true)
        .map_max_entries("watched", if nobody_is_listed(settings) { 1 } else { settings.processes })
        .map_max_entries("rings", rings)
        .map_max_entries("faults", rings.saturating_mul(slots))
        .map_max_entries("marks", if by_copy { THREADS } else { 1 })
        .map_max_entries("stacks", if by_copy { THREADS } else { 1 })
        .map_max_entries("copies", if by_copy { settings.copies_bytes } else { 4096 })
        .load(OBJECT)
        .map_err(|error| refused("loading the programs", &error))
}

fn reading(error: MapError) -> BpfError {
    BpfError::kernel("making the maps", &error)
}
