// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies over time, for the Firefox Profiler.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use cowlab_schema::Writer;
use cowlab_store::stacks::{Copy, CopyStacks};
use flate2::Compression;
use flate2::write::GzEncoder;
use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, SamplingInterval, Timestamp,
    WeightType,
};

/// The file (JSON in gzip), with a track for each thread that copied; a copy weighs the bytes that it
/// stands for. `started` is when the recording was, for the page's head; times begin with the first copy.
pub fn profile(stacks: &CopyStacks, started: SystemTime, page_bytes: u64) -> Result<Vec<u8>> {
    let is_shared = |copy: &&Copy| copy.writer != Writer::Own.to_string();
    let mut copies: Vec<&Copy> = stacks.copies.iter().filter(is_shared).collect();
    copies.sort_by_key(|copy| copy.time_ns);
    let first_ns = copies.first().map_or(0, |copy| copy.time_ns);
    let interval = SamplingInterval::from_nanos(Duration::from_millis(1).as_nanos() as u64);
    let mut profile = Profile::new("copies of pages after fork", started.into(), interval);
    profile.set_symbolicated(true);
    let (mut processes, mut threads) = (HashMap::new(), HashMap::new());
    for copy in copies {
        let time = Timestamp::from_nanos_since_reference(copy.time_ns - first_ns);
        let process = *processes.entry(copy.pid).or_insert_with(|| {
            let name = format!("{} ({})", copy.process, copy.writer);
            profile.add_process(&name, copy.pid, time)
        });
        let thread = *threads.entry((copy.pid, copy.tid)).or_insert_with(|| {
            let thread = profile.add_thread(process, copy.tid, time, copy.pid == copy.tid);
            profile.set_thread_name(thread, &copy.process);
            profile.set_thread_samples_weight_type(thread, WeightType::Bytes);
            thread
        });
        // The outermost comes first.
        let functions = stacks.functions(copy).into_iter().rev().map(|(name, _)| name.to_owned());
        let call = copy.syscall.as_ref().map(|name| format!("{name}(2)"));
        let frames: Vec<_> = functions
            .chain(call)
            .map(|name| FrameInfo {
                frame: Frame::Label(profile.intern_string(&name)),
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            })
            .collect();
        let stack = profile.intern_stack_frames(thread, frames.into_iter());
        let weight = i32::try_from(page_bytes * u64::from(copy.every)).unwrap_or(i32::MAX);
        profile.add_sample(thread, time, stack, CpuDelta::ZERO, weight);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    serde_json::to_writer(&mut packed, &profile)?;
    Ok(packed.finish()?)
}

#[cfg(test)]
mod tests {
    use cowlab_store::stacks;
    use flate2::read::GzDecoder;
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_copy_is_a_sample_of_its_thread() {
        let frame = |name: &str| stacks::Frame {
            functions: vec![(name.to_owned(), None)],
            ..stacks::Frame::default()
        };
        let copy = |time_ns, pid, writer: Writer| Copy {
            time_ns,
            pid,
            tid: pid,
            process: "server".into(),
            writer: writer.to_string(),
            every: 4,
            frames: vec![1, 0],
            ..Copy::default()
        };
        let stacks = CopyStacks {
            frames: vec![frame("main"), frame("serve")],
            copies: vec![
                copy(9_000_000, 7, Writer::Child),
                copy(5_000_000, 7, Writer::Child),
                copy(6_000_000, 3, Writer::Parent),
                copy(1_000_000, 3, Writer::Own),
            ],
        };
        let packed = profile(&stacks, SystemTime::UNIX_EPOCH, 4096).unwrap();
        let profile: Value = serde_json::from_reader(GzDecoder::new(&packed[..])).unwrap();
        let threads = profile["threads"].as_array().unwrap();
        let samples = |at: usize| &threads[at]["samples"];
        assert_eq!(threads.len(), 2, "what is not shared is left out");
        assert_eq!(threads[0]["processName"], "server (child)");
        assert_eq!(samples(0)["weight"], serde_json::json!([16384, 16384]));
        assert_eq!(samples(0)["weightType"], "bytes");
        assert_eq!(samples(1)["length"], 1);
        let names = profile["shared"]["stringArray"].to_string() + &threads[0].to_string();
        assert!(names.contains("serve") && names.contains("main"));
    }
}
