// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans as samples. No address is among them: a region is named by its place among the regions
//! of its process.

use cowlab_store::{Params, Sample};

use super::method::Method;
use super::spans::{Between, Key, Spans, Sum};
use super::tally::{BLOCK_BYTES, Counts, share};

/// The name of this benchmark in samples.
pub const BENCH: &str = "footprint";
/// Of the parameter `mapping`: everything together.
pub const ALL: &str = "all";

struct Writer<'a> {
    samples: &'a mut Vec<Sample>,
    params: Params,
    start_unix_ns: i64,
    /// The written pages are a lower bound: of it no share is told.
    is_bound: bool,
}

impl Writer<'_> {
    fn add(&mut self, metric: &str, unit: &str, value: f64) {
        self.add_rep(metric, unit, value, 0);
    }

    fn add_rep(&mut self, metric: &str, unit: &str, value: f64, rep: u32) {
        self.samples.push(Sample {
            unit: unit.to_owned(),
            rep,
            start_unix_ns: self.start_unix_ns,
            ..Sample::new(BENCH, self.params.clone(), metric, value)
        });
    }

    fn add_share(&mut self, metric: &str, share: Option<f64>) {
        if let Some(share) = share.filter(|_| !(self.is_bound && metric == "write_fraction")) {
            self.add(metric, "fraction", share);
        }
    }
}

/// Whether pages that were the process's own before are written unseen: no fork made them shared.
pub fn is_bound(key: &Key) -> bool {
    key.method == Method::Exclusive && matches!(key.between, Between::Interval | Between::Marks)
}

/// Every figure of a run.
pub fn samples(spans: &Spans, page_bytes: u64, start_unix_ns: i64) -> Vec<Sample> {
    let mut found = Vec::new();
    for (key, sum) in &spans.sums {
        of_sum(&mut found, key, sum, page_bytes);
    }
    let mut out =
        Writer { samples: &mut found, params: Params::new(), start_unix_ns, is_bound: false };
    out.add("forks", "forks", spans.forks as f64);
    out.add("spawns", "spawns", spans.spawns as f64);
    out.add("unseen", "spans", spans.unseen as f64);
    for (rep, took) in spans.reading_ns.iter().enumerate() {
        out.add_rep("reading_ns", "ns", *took as f64, rep as u32);
    }
    for (rep, took) in spans.copy_ns.iter().enumerate() {
        out.add_rep("copy_ns", "ns", *took as f64, rep as u32);
    }
    if spans.stops > 0 {
        out.add("stops", "stops", spans.stops as f64);
        out.add("stopped_ns", "ns", spans.stopped_ns as f64);
        out.add("longest_stop_ns", "ns", spans.longest_stop_ns as f64);
        out.add("longest_end_ns", "ns", spans.longest_end_ns as f64);
    }
    if let (Some(read), Some(lost)) = (spans.faults_read, spans.faults_lost) {
        out.add("write_faults", "faults", read as f64);
        out.add("lost_faults", "faults", lost as f64);
    }
    for ((policy, writer), result) in &spans.policies {
        out.params = Params::from([
            ("policy".to_owned(), policy.clone()),
            ("writer".to_owned(), writer.name().to_owned()),
        ]);
        out.add("first_writes", "pages", result.writes as f64);
        out.add("faults_left", "faults", result.faults as f64);
        out.add("precopied_pages", "pages", result.precopied as f64);
        out.add("precopied_written_pages", "pages", result.hits as f64);
        out.add_share("hit_fraction", result.hit_rate());
    }
    found
}

fn of_sum(samples: &mut Vec<Sample>, key: &Key, sum: &Sum, page_bytes: u64) {
    let params = Params::from(
        [
            ("program", key.program.as_str()),
            ("span", key.between.name()),
            ("writer", key.writer.name()),
            ("method", key.method.name()),
            ("mapping", ALL),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let is_bound = is_bound(key) && sum.unknown_pages > 0;
    let mut out = Writer { samples, params, start_unix_ns: sum.start_unix_ns, is_bound };
    out.add("spans", "spans", sum.spans as f64);
    out.add("duration_ns", "ns", sum.duration_ns as f64);
    out.add("unknown_pages", "pages", sum.unknown_pages as f64);
    if key.between.is_fork() {
        out.add("freed_unseen_pages", "pages", sum.freed_unseen_pages as f64);
    }
    if sum.blind_ns > 0 {
        out.add("blind_ns", "ns", sum.blind_ns as f64);
    }
    let total = sum.tally.total();
    counts(&mut out, &total, page_bytes, sum.tally.has_bytes);
    // What a remote fork would send (document 000, section 1.2).
    let whole = total.pages_mapped.max(total.start_pages) * page_bytes;
    out.add("remote_whole_bytes", "bytes", whole as f64);
    out.add("remote_pages_bytes", "bytes", (total.pages_written * page_bytes) as f64);
    if sum.tally.has_bytes {
        out.add("remote_changed_bytes", "bytes", total.bytes_changed as f64);
    }
    for (kind, kinds) in &sum.tally.kinds {
        out.params.insert("mapping".to_owned(), kind.name().to_owned());
        counts(&mut out, kinds, page_bytes, sum.tally.has_bytes);
    }
    for (place, region) in sum.tally.regions.values().enumerate() {
        out.params.insert("mapping".to_owned(), region.kind.name().to_owned());
        out.params.insert("region".to_owned(), place.to_string());
        if key.between.is_fork() {
            out.add("start_pages", "pages", region.counts.start_pages as f64);
            out.add("cow_pages", "pages", region.counts.cow_pages as f64);
        }
        out.add("pages_mapped", "pages", region.counts.pages_mapped as f64);
        out.add("pages_written", "pages", region.counts.pages_written as f64);
        out.add_share("write_fraction", region.counts.write_fraction());
    }
}

fn counts(out: &mut Writer<'_>, counts: &Counts, page_bytes: u64, has_bytes: bool) {
    let pages = [
        ("start_pages", counts.start_pages),
        ("pages_mapped", counts.pages_mapped),
        ("pages_written", counts.pages_written),
        ("cow_pages", counts.cow_pages),
        ("new_pages", counts.new_pages),
        ("gone_pages", counts.gone_pages),
        ("file_pages", counts.file_pages),
    ];
    for (metric, pages) in pages {
        out.add(metric, "pages", pages as f64);
    }
    out.add("vmas", "mappings", counts.vmas as f64);
    out.add("vmas_anon", "mappings", counts.vmas_anon as f64);
    out.add_share("write_fraction", counts.write_fraction());
    out.add_share("cow_fraction", counts.cow_fraction());
    if has_bytes {
        let bytes = counts.pages_mapped * page_bytes;
        out.add("bytes_changed", "bytes", counts.bytes_changed as f64);
        out.add("bytes_differing", "bytes", counts.bytes_differing as f64);
        out.add("blocks_changed", "blocks", counts.blocks_changed as f64);
        out.add_share("byte_write_fraction", share(counts.bytes_changed, bytes));
        let blocks = bytes / BLOCK_BYTES as u64;
        out.add_share("block_write_fraction", share(counts.blocks_changed, blocks));
    }
}
