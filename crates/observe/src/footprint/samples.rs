// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans as samples. No address is among them: a region is named by its place among the regions
//! of its process.

use cowlab_schema::footprint::{self as names, Mapping};
use cowlab_schema::{Metric, Params};
use cowlab_store::Sample;

use super::method::Method;
use super::spans::{Between, Key, Spans, Sum};
use super::tally::{BLOCK_BYTES, Counts, share};

struct Writer<'a> {
    samples: &'a mut Vec<Sample>,
    params: Params,
    start_unix_ns: i64,
    /// The written pages are a lower bound: of it no share is told.
    is_bound: bool,
}

impl Writer<'_> {
    fn add(&mut self, metric: Metric, value: impl Into<Option<f64>>) {
        self.add_rep(metric, value, 0);
    }

    fn count(&mut self, metric: Metric, count: u64) {
        self.add(metric, count as f64);
    }

    fn add_rep(&mut self, metric: Metric, value: impl Into<Option<f64>>, rep: u32) {
        let is_told = !(self.is_bound && metric == names::WRITE_FRACTION);
        self.samples.extend(value.into().filter(|_| is_told).map(|value| Sample {
            rep,
            start_unix_ns: self.start_unix_ns,
            ..Sample::of(metric, self.params.clone(), value)
        }));
    }
}

/// Whether pages that were the process's own before are written unseen: no fork made them shared.
pub fn is_bound(key: &Key) -> bool {
    key.method == Method::Exclusive && matches!(key.between, Between::Interval | Between::Marks)
}

pub fn samples(spans: &Spans, page_bytes: u64, start_unix_ns: i64) -> Vec<Sample> {
    let mut found = Vec::new();
    for (key, sum) in &spans.sums {
        of_sum(&mut found, key, sum, page_bytes);
    }
    let mut out =
        Writer { samples: &mut found, params: Params::new(), start_unix_ns, is_bound: false };
    out.count(names::FORKS, spans.forks);
    out.count(names::SPAWNS, spans.spawns);
    out.count(names::UNSEEN, spans.unseen);
    for (metric, all) in [(names::READING_NS, &spans.reading_ns), (names::COPY_NS, &spans.copy_ns)]
    {
        for (rep, took) in (0..).zip(all) {
            out.add_rep(metric, *took as f64, rep);
        }
    }
    if spans.stops > 0 {
        out.count(names::STOPS, spans.stops);
        out.count(names::STOPPED_NS, spans.stopped_ns);
        out.count(names::LONGEST_STOP_NS, spans.longest_stop_ns);
        out.count(names::LONGEST_END_NS, spans.longest_end_ns);
    }
    if let (Some(read), Some(lost)) = (spans.faults_read, spans.faults_lost) {
        out.count(names::WRITE_FAULTS, read);
        out.count(names::LOST_FAULTS, lost);
        out.add(names::OBSERVING_NS, spans.observing_ns);
    }
    for ((policy, writer), result) in &spans.policies {
        out.params = Params::new();
        names::POLICY.put(&mut out.params, policy);
        names::WRITER.put(&mut out.params, *writer);
        out.count(names::FIRST_WRITES, result.writes);
        out.count(names::FAULTS_LEFT, result.faults);
        out.count(names::PRECOPIED_PAGES, result.precopied);
        out.count(names::PRECOPIED_WRITTEN_PAGES, result.hits);
        out.add(names::HIT_FRACTION, result.hit_rate());
    }
    found
}

fn of_sum(samples: &mut Vec<Sample>, key: &Key, sum: &Sum, page_bytes: u64) {
    let mut params = Params::new();
    names::PROGRAM.put(&mut params, &key.program);
    names::SPAN.put(&mut params, key.between);
    names::WRITER.put(&mut params, key.writer);
    names::METHOD.put(&mut params, key.method);
    names::MAPPING.put(&mut params, Mapping::All);
    let is_bound = is_bound(key) && sum.unknown_pages > 0;
    let mut out = Writer { samples, params, start_unix_ns: sum.start_unix_ns, is_bound };
    out.count(names::SPANS, sum.spans);
    out.count(names::DURATION_NS, sum.duration_ns);
    if let Some(cpu_ns) = sum.writer_cpu_ns {
        out.count(names::WRITER_CPU_NS, cpu_ns);
    }
    if let Some(cpu_ns) = sum.others_cpu_ns {
        out.count(names::OTHERS_CPU_NS, cpu_ns);
    }
    out.count(names::UNKNOWN_PAGES, sum.unknown_pages);
    if key.between.is_fork() {
        out.count(names::FREED_UNSEEN_PAGES, sum.freed_unseen_pages);
    }
    if sum.blind_ns > 0 {
        out.count(names::BLIND_NS, sum.blind_ns);
    }
    let total = sum.tally.total();
    counts(&mut out, &total, page_bytes, sum.tally.has_bytes);
    if let Some(pages) = sum.tally.nearby_pages {
        out.count(names::NEARBY_PAGES, pages);
    }
    // What a remote fork would send (Smith and Maguire 1988, section 1.2).
    let whole = total.pages_mapped.max(total.start_pages) * page_bytes;
    out.count(names::REMOTE_WHOLE_BYTES, whole);
    out.count(names::REMOTE_PAGES_BYTES, total.pages_written * page_bytes);
    if sum.tally.has_bytes {
        out.count(names::REMOTE_CHANGED_BYTES, total.bytes_changed);
    }
    for (kind, kinds) in &sum.tally.kinds {
        names::MAPPING.put(&mut out.params, kind.mapping());
        counts(&mut out, kinds, page_bytes, sum.tally.has_bytes);
    }
    for (place, region) in (0u64..).zip(sum.tally.regions.values()) {
        names::MAPPING.put(&mut out.params, region.kind.mapping());
        names::REGION.put(&mut out.params, place);
        if key.between.is_fork() {
            out.count(names::START_PAGES, region.counts.start_pages);
            out.count(names::COW_PAGES, region.counts.cow_pages);
        }
        out.count(names::PAGES_MAPPED, region.counts.pages_mapped);
        out.count(names::PAGES_WRITTEN, region.counts.pages_written);
        out.add(names::WRITE_FRACTION, region.counts.write_fraction());
    }
}

fn counts(out: &mut Writer<'_>, counts: &Counts, page_bytes: u64, has_bytes: bool) {
    for (metric, count) in [
        (names::START_PAGES, counts.start_pages),
        (names::PAGES_MAPPED, counts.pages_mapped),
        (names::PAGES_WRITTEN, counts.pages_written),
        (names::COW_PAGES, counts.cow_pages),
        (names::NEW_PAGES, counts.new_pages),
        (names::GONE_PAGES, counts.gone_pages),
        (names::FILE_PAGES, counts.file_pages),
        (names::VMAS, counts.vmas),
        (names::VMAS_ANON, counts.vmas_anon),
    ] {
        out.count(metric, count);
    }
    out.add(names::WRITE_FRACTION, counts.write_fraction());
    out.add(names::COW_FRACTION, counts.cow_fraction());
    if has_bytes {
        let bytes = counts.pages_mapped * page_bytes;
        out.count(names::BYTES_CHANGED, counts.bytes_changed);
        out.count(names::BYTES_DIFFERING, counts.bytes_differing);
        out.count(names::BLOCKS_CHANGED, counts.blocks_changed);
        out.add(names::BYTE_WRITE_FRACTION, share(counts.bytes_changed, bytes));
        let blocks = bytes / BLOCK_BYTES as u64;
        out.add(names::BLOCK_WRITE_FRACTION, share(counts.blocks_changed, blocks));
    }
}
