// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a measurement fit: which limit binds, and is the heap that is offered one that fits?

use cowlab_machine::Facts;
use cowlab_machine::cgroup::{Cgroup, MemoryBound};
use cowlab_machine::fit::{Limit, Need, check};
use cowlab_machine::limits::ResourceLimits;
use cowlab_machine::memory::{Memory, Overcommit};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn machine(available_bytes: u64) -> Facts {
    let memory = Memory {
        total_bytes: 2 * available_bytes,
        available_bytes: Some(available_bytes),
        commit_limit_bytes: Some(4 * GIB),
        committed_bytes: GIB,
        ..Memory::default()
    };
    Facts { page_size_bytes: 4096, memory: Some(memory), ..Facts::default() }
}

fn need(heap_bytes: u64, written_bytes: u64, children: u64) -> Need {
    Need { heap_bytes, written_bytes, children, page_size_bytes: 4096 }
}

#[test]
fn the_tightest_limit_binds() {
    let free = machine(16 * GIB);
    let strict =
        Facts { overcommit: Overcommit { memory: Some(2), ..Default::default() }, ..free.clone() };
    let bound = MemoryBound {
        file: "/sys/fs/cgroup/a/memory.max".into(),
        limit_bytes: 3 * GIB,
        usage_bytes: Some(2 * GIB),
        inactive_file_bytes: Some(GIB),
    };
    let group = Facts {
        cgroup: Cgroup { memory_max: vec![bound.clone()], ..Default::default() },
        ..free.clone()
    };
    let narrow = |address_space_bytes, data_bytes| Facts {
        limits: Some(ResourceLimits { address_space_bytes, data_bytes, ..Default::default() }),
        ..free.clone()
    };
    for (facts, need, limit) in [
        (&free, need(4 * GIB, 4 * GIB, 1), None),
        (&free, need(8 * GIB, 8 * GIB, 1), Some(Limit::MemAvailable)),
        (&free, need(8 * GIB, 0, 1), None),
        (&free, need(15 * GIB, 0, 0), None),
        (&free, need(16 * GIB, 0, 0), Some(Limit::MemAvailable)),
        (&strict, need(GIB, 0, 1), None),
        (&strict, need(2 * GIB, 0, 1), Some(Limit::Commit)),
        (&group, need(GIB, 0, 1), None),
        (&group, need(GIB, GIB, 1), Some(Limit::Cgroup(bound.file.clone()))),
        (&narrow(Some(GIB), None), need(GIB, 0, 1), Some(Limit::AddressSpace)),
        (&narrow(Some(GIB), None), need(GIB / 2, GIB / 4, 1), None),
        (&narrow(Some(GIB), None), need(GIB / 2, GIB / 2, 1), Some(Limit::AddressSpace)),
        (&narrow(None, Some(GIB)), need(GIB, 0, 1), Some(Limit::Data)),
        (&Facts::default(), need(u64::MAX, u64::MAX, u64::MAX), None),
    ] {
        assert_eq!(check(facts, &need).err().map(|error| error.limit), limit, "{need:?}");
    }
}

#[test]
fn the_message_is_one_sentence_with_the_largest_heap() {
    let error = check(&machine(20 * GIB), &need(64 * GIB, 64 * GIB, 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a heap of 64.0 GiB, all written by 1 child, needs 128 GiB and 1.00 GiB to spare, but \
             only 20.0 GiB are free (MemAvailable): the largest heap that fits is 9.48 GiB"
    );
    let error = check(&machine(GIB), &need(4 * GIB, GIB, 3)).unwrap_err().to_string();
    assert!(error.contains(", 1.00 GiB of it written by each of 3 children, needs"), "{error}");
    let error = check(&machine(100 * MIB), &need(GIB, 0, 0)).unwrap_err();
    assert_eq!(error.largest_heap_bytes, 0);
    assert!(error.to_string().contains("no heap fits"), "{error}");
}

/// A fixed sequence (xorshift), so that each run tries the same 2000 machines.
#[test]
fn the_heap_that_is_offered_fits_and_one_page_more_does_not() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut refused = 0;
    for _ in 0..2000 {
        let mut facts = machine(next(64 * GIB) + MIB);
        facts.overcommit.memory = Some(next(3) as u32);
        if next(2) == 0 {
            facts.limits = Some(ResourceLimits {
                address_space_bytes: Some(next(32 * GIB)),
                ..Default::default()
            });
        }
        let heap_bytes = next(128 * GIB) + 1;
        let need = Need {
            heap_bytes,
            written_bytes: next(heap_bytes + 1),
            children: next(5),
            page_size_bytes: [4096, 65536, 2 * MIB][next(3) as usize],
        };
        let Err(error) = check(&facts, &need) else { continue };
        refused += 1;
        let largest = error.largest_heap_bytes;
        assert!(largest <= need.heap_bytes && largest % need.page_size_bytes == 0);
        let fits = |heap: u64| check(&facts, &need.with_heap(heap)).is_ok();
        assert!(largest == 0 || fits(largest), "{need:?} {error:?}");
        let more = largest + need.page_size_bytes;
        assert!(more > need.heap_bytes || !fits(more), "{need:?} {error:?}");
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn sizes_at_the_end_of_the_range_do_not_overflow() {
    for page_size_bytes in [0, 1, 4096, 1 << 30] {
        let need = Need {
            heap_bytes: u64::MAX,
            written_bytes: u64::MAX,
            children: u64::MAX,
            page_size_bytes,
        };
        let error = check(&machine(GIB), &need).unwrap_err();
        assert_eq!(error.needed_bytes, u64::MAX);
    }
}
