// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is told of a target while it is tended: a sentence, or a line of JSON.

use anyhow::Result;
use cowlab_bench::probes::unix_ns;
use cowlab_observe::tend::{Event, Figures};
use cowlab_report::fmt::{count, estimate, quantity, time};
use cowlab_report::terminal::clean;
use cowlab_schema::{Params, QUANTILES, tend};
use cowlab_store::{Histogram, Sample, value_at};
use serde::Serialize;

use crate::sinks::{json_line, samples as samples_of};

#[derive(Serialize)]
struct Message<'a> {
    unix_ns: i64,
    pid: i32,
    name: &'a str,
    #[serde(flatten)]
    event: &'a Event,
}

#[derive(Serialize)]
struct Ended<'a> {
    event: &'static str,
    reason: &'a str,
    #[serde(flatten)]
    figures: &'a Figures,
    call_p50_ns: Option<u64>,
    call_max_ns: Option<u64>,
    stall_p99_ns: Option<u64>,
    stall_max_ns: Option<u64>,
}

impl Ended<'_> {
    fn line(event: &'static str, reason: &str, figures: &Figures) -> Result<String> {
        let quantile =
            |of: &Histogram<u64>, q: f64| (!of.is_empty()).then(|| of.value_at_quantile(q));
        let ended = Ended {
            event,
            reason,
            figures,
            call_p50_ns: quantile(&figures.call_ns, 0.5),
            call_max_ns: quantile(&figures.call_ns, 1.0),
            stall_p99_ns: quantile(&figures.stall_ns, 0.99),
            stall_max_ns: quantile(&figures.stall_ns, 1.0),
        };
        json_line(ended, &samples(figures), &[])
    }
}

pub fn event(json: bool, figures: &Figures, event: &Event) -> Result<String> {
    if json {
        let (pid, name) = (figures.pid, figures.name.as_str());
        return json_line(Message { unix_ns: unix_ns(), pid, name, event }, &[], &[]);
    }
    Ok(format!("{} ({}): {}\n", clean(&figures.name), figures.pid, words(event)))
}

/// How far it is, from time to time; of nothing under way only the figures are told.
pub fn progress(json: bool, of: &Figures) -> Result<Option<String>> {
    if json {
        return Ended::line("figures", "", of).map(Some);
    }
    let Some(left_ns) = of.done_in_ns else { return Ok(None) };
    let done = of.pass_regions - of.regions_left;
    Ok(Some(format!(
        "{} ({}): {} of {} regions, {} of {}; done in about {}\n",
        clean(&of.name),
        of.pid,
        count(done),
        count(of.pass_regions),
        quantity((done * of.huge_page_bytes) as f64, "bytes"),
        quantity((of.pass_regions * of.huge_page_bytes) as f64, "bytes"),
        quantity(left_ns as f64, "ns"),
    )))
}

pub fn ended(json: bool, of: &Figures, reason: &str) -> Result<String> {
    if json {
        return Ended::line("ended", reason, of);
    }
    let stall = match of.stall_ns.is_empty() {
        true => String::new(),
        false => format!(
            ", none held it up for longer than {}",
            quantity(of.stall_ns.max() as f64, "ns")
        ),
    };
    let stop = match (of.fork_before_ns, of.fork_ns) {
        (Some(before), Some(now)) => {
            format!("; a fork would stop it for about {}, {} before", time(now), time(before))
        }
        _ => String::new(),
    };
    Ok(format!(
        "{} ({}): {reason}: {} regions were collapsed{stall}{stop}; {} forks were seen; {} of CPU time, {} of it \
         to warm memory\n",
        clean(&of.name),
        of.pid,
        count(of.collapsed_regions),
        count(of.forks),
        quantity(of.cpu_ns as f64, "ns"),
        quantity(of.warming_cpu_ns as f64, "ns"),
    ))
}

fn samples(of: &Figures) -> Vec<Sample> {
    let of_target = params(of.pid, &of.name);
    let mut rows: Vec<Sample> = samples_of(Figures::FIGURES, of, &of_target, 0).collect();
    if !of.stall_ns.is_empty() {
        rows.extend(QUANTILES.into_iter().map(|quantile| {
            let mut params = of_target.clone();
            tend::QUANTILE.put(&mut params, quantile);
            Sample::of(tend::STALL_NS, params, value_at(&of.stall_ns, quantile) as f64)
        }));
    }
    rows
}

pub fn params(pid: i32, name: &str) -> Params {
    let mut params = Params::new();
    tend::PID.put(&mut params, pid as u32);
    tend::NAME.put(&mut params, name);
    params
}

fn words(event: &Event) -> String {
    let ns = |ns: u64| quantity(ns as f64, "ns");
    match event {
        Event::Surveyed {
            small_pages,
            huge_regions,
            candidate_regions,
            sparse_regions,
            backed_off_regions,
            unprofitable_regions,
            fork_ns,
            fork_after_ns,
        } => {
            let stops = match (fork_ns, fork_after_ns) {
                (Some(now), Some(after)) => format!(
                    "; a fork would stop it for {}, and for {} then",
                    estimate(now.value, now.low, now.high, "ns"),
                    estimate(after.value, after.low, after.high, "ns")
                ),
                _ => String::new(),
            };
            let unprofitable = match unprofitable_regions {
                0 => String::new(),
                regions => format!(", {} that do not pay", count(*regions)),
            };
            format!(
                "{} base pages and {} huge pages; {} regions to collapse, {} too sparse, {} left \
                 alone{unprofitable}{stops}",
                count(*small_pages),
                count(*huge_regions),
                count(*candidate_regions),
                count(*sparse_regions),
                count(*backed_off_regions)
            )
        }
        Event::Shared { alive } => {
            format!("{alive} that it forked before share its memory: waiting")
        }
        Event::Forked { alive } => format!("forked, {alive} now share its memory: waiting"),
        Event::Alone { after_ns } => {
            format!("nobody shares its memory any more, after {}", ns(*after_ns))
        }
        Event::Done { collapsed_regions, took_ns } => {
            format!("{} regions collapsed in {}", count(*collapsed_regions), ns(*took_ns))
        }
        Event::Resting { reason, for_ns } => {
            format!("rests for {}: {}", ns(*for_ns), reason.words())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_under_way_says_how_far_it_is_and_when_it_will_be_done() {
        let mut figures = Figures {
            pass_regions: 600,
            regions_left: 450,
            huge_page_bytes: 2 << 20,
            ..Figures::new(7, "redis-server".to_owned())
        };
        assert_eq!(progress(false, &figures).unwrap(), None, "nothing is under way");
        figures.done_in_ns = Some(30_000_000_000);
        assert_eq!(
            progress(false, &figures).unwrap().unwrap(),
            "redis-server (7): 150 of 600 regions, 300 MiB of 1.17 GiB; done in about 30.0 s\n"
        );
        assert!(progress(true, &figures).unwrap().unwrap().contains("\"event\":\"figures\""));
    }
}
