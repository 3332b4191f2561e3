// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Load: YCSB's records, and updates of them by clients that wait for an answer each, as fast as they
//! can or at intended times.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cowlab_observe::redis::{Connection, Pipeline};
use cowlab_store::{Histogram, histogram_of};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use super::server::{Placement, Server};

/// Fields of a record, YCSB's default.
pub const FIELDS: u32 = 10;
/// Bytes of a field's value, YCSB's default.
pub const VALUE_BYTES: usize = 100;
/// A record's memory in Redis 7.0 (used_memory), for sizing.
pub const RECORD_BYTES: u64 = 1900;

/// The clients' niceness, where they have CPUs of their own.
const CLIENT_NICE: i32 = -10;

/// From when all are connected until the first update is intended.
const START: Duration = Duration::from_millis(20);

/// Commands in one round trip while records are made.
const POPULATE_PIPELINE: u64 = 200;

/// A key of 23 bytes, like YCSB's: `user` and 19 digits that hash the record's number, so that ranks
/// are scattered over the keys (FNV-1a, as YCSB hashes).
pub fn key(record: u64) -> String {
    let hash = record.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("user{:019}", hash % 10_000_000_000_000_000_000)
}

pub fn populate(server: &Server, records: u64, stop: &AtomicBool) -> Result<()> {
    let mut connection = server.connect()?;
    let value = vec![b'x'; VALUE_BYTES];
    let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field}")).collect();
    for first in (0..records).step_by(POPULATE_PIPELINE as usize) {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut commands = Pipeline::default();
        for record in first..(first + POPULATE_PIPELINE).min(records) {
            let key = key(record);
            let mut words: Vec<&[u8]> = vec![b"HSET", key.as_bytes()];
            fields.iter().for_each(|field| words.extend([field.as_bytes(), &value]));
            commands.add(words.into_iter());
        }
        connection.run(&commands).context("the records cannot be made")?;
    }
    Ok(())
}

#[derive(Debug, Clone)]
pub struct Load {
    pub records: u64,
    pub updates: u64,
    /// Clients, each with a thread, a connection and one request under way.
    pub clients: u32,
    /// Updates of a request, sent and answered at once.
    pub pipeline: u32,
    pub zipf_alpha: f64,
    /// Updates a second that are intended, of all clients; `None`: as many as can be.
    pub rate_per_s: Option<f64>,
    /// Where clients may run; `None`: as the scheduler likes.
    pub placement: Option<Placement>,
    /// Seed of the choice of records.
    pub seed: u64,
}

/// One request, in ns since the load began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it was intended, or sent, where nothing was intended.
    pub begin_ns: u64,
    /// How long after that, and after the answer to its client's last one, it was sent: what the
    /// client, and not the server, is late.
    pub late_ns: u64,
    pub end_ns: u64,
    pub updates: u32,
}

impl Request {
    pub fn took_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns).max(1)
    }
}

pub fn updates_of<'a>(requests: impl IntoIterator<Item = &'a Request>) -> u64 {
    requests.into_iter().map(|request| u64::from(request.updates)).sum()
}

/// A time of requests, as often as they have updates.
pub fn histogram_by_update<'a>(
    requests: impl IntoIterator<Item = &'a Request>,
    of: impl Fn(&Request) -> u64,
) -> Histogram<u64> {
    let mut histogram = histogram_of([]);
    for request in requests {
        let recorded = histogram.record_n(of(request), request.updates.into());
        recorded.expect("an auto-resizing histogram takes every value");
    }
    histogram
}

/// Make the load. Every request is in the result; `progress` counts their updates meanwhile. Ends
/// early, with what was done, when `stop` is set.
pub fn run(
    server: &Server,
    load: &Load,
    began: Instant,
    progress: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Vec<Request>> {
    let clients = u64::from(load.clients);
    let connections =
        (0..clients).map(|_| server.connect()).collect::<Result<Vec<Connection>>>()?;
    // What is intended while clients are still being started would be late by that.
    let first_ns = (began.elapsed() + START).as_nanos() as u64;
    let each = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(connections)
            .map(|(client, mut connection)| {
                let updates = load.updates / clients + u64::from(client < load.updates % clients);
                scope.spawn(move || {
                    let plan = Client { load, client, updates, began, first_ns };
                    let done = plan.run(&mut connection, progress, stop);
                    // The others need not wait for a dead server.
                    if done.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("clients do not panic"));
        joined.collect::<Vec<Result<Vec<Request>>>>()
    });
    let each: Vec<Vec<Request>> = each.into_iter().collect::<Result<_>>()?;
    Ok(each.concat())
}

struct Client<'a> {
    load: &'a Load,
    client: u64,
    updates: u64,
    began: Instant,
    /// When the first update of all clients is intended.
    first_ns: u64,
}

impl Client<'_> {
    fn run(
        &self,
        connection: &mut Connection,
        progress: &AtomicU64,
        stop: &AtomicBool,
    ) -> Result<Vec<Request>> {
        let load = self.load;
        if let Some(placement) = &load.placement {
            placement.place_client().context("a client cannot be kept from the server's CPU")?;
            // Clients stand for other machines, which do not wait for a snapshot's child to leave
            // them a CPU. Where that is not permitted they do wait, and `late_ns` shows it.
            let _ = rustix::process::setpriority_process(None, CLIENT_NICE);
        }
        // A sleeper is woken 50 µs late by default, which is not the server's doing.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let zipf = Zipf::new(load.records as f64, load.zipf_alpha)?;
        let mut random = StdRng::seed_from_u64(load.seed ^ (self.client << 32));
        let value = vec![b'y'; VALUE_BYTES];
        // Clients take turns: each has its own part of every period.
        let together = f64::from(load.clients) * f64::from(load.pipeline);
        let period_ns = load.rate_per_s.map(|rate| 1e9 * together / rate);
        let turn_ns = period_ns.unwrap_or(0.0) * self.client as f64 / f64::from(load.clients);
        let offset_ns = self.first_ns as f64 + turn_ns;
        let requests = self.updates.div_ceil(load.pipeline.into());
        let mut done: Vec<Request> = Vec::with_capacity(requests as usize);
        for number in 0..requests {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let left = self.updates - number * u64::from(load.pipeline);
            let updates = load.pipeline.min(u32::try_from(left).unwrap_or(u32::MAX));
            let mut request = Pipeline::default();
            for _ in 0..updates {
                let record = zipf.sample(&mut random) as u64 - 1;
                let field = format!("field{}", random.random_range(0..FIELDS));
                let key = key(record);
                let words: [&[u8]; 4] = [b"HSET", key.as_bytes(), field.as_bytes(), &value];
                request.add(words.into_iter());
            }
            let mut begin_ns = self.began.elapsed().as_nanos() as u64;
            let mut late_ns = 0;
            if let Some(period_ns) = period_ns {
                begin_ns = (offset_ns + number as f64 * period_ns) as u64;
                wait_until(self.began, begin_ns);
                let free_ns = done.last().map_or(0, |last| last.end_ns).max(begin_ns);
                late_ns = (self.began.elapsed().as_nanos() as u64).saturating_sub(free_ns);
            }
            connection.run(&request).context("an update was not answered")?;
            let end_ns = self.began.elapsed().as_nanos() as u64;
            done.push(Request { begin_ns, late_ns, end_ns, updates });
            progress.fetch_add(updates.into(), Ordering::Relaxed);
        }
        Ok(done)
    }
}

fn wait_until(began: Instant, at_ns: u64) {
    let at = began + Duration::from_nanos(at_ns);
    let left = at.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_have_23_bytes_and_differ() {
        let keys: BTreeSet<String> = (0..100_000).map(key).collect();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().all(|key| key.len() == 23));
    }

    #[test]
    fn a_request_counts_as_often_as_it_has_updates() {
        let request = |took_ns: u64, updates| Request {
            begin_ns: 50,
            late_ns: 0,
            end_ns: 50 + took_ns,
            updates,
        };
        let requests = [request(100, 8), request(900, 1)];
        let histogram = histogram_by_update(&requests, Request::took_ns);
        assert_eq!((histogram.len(), updates_of(&requests)), (9, 9));
        assert_eq!((histogram.value_at_quantile(0.5), histogram.max()), (100, 900));
    }

    #[test]
    fn nobody_waits_for_what_is_past() {
        let began = Instant::now();
        wait_until(began, 0);
        wait_until(began, 200_000);
        assert!(began.elapsed() >= Duration::from_micros(200));
    }
}
