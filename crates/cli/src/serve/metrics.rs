// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics as text, and the endpoint: `GET /metrics`, and nothing else.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};

use anyhow::{Result, anyhow};
use cowlab_schema::live::{Figure, Figures, Kind, Scraped};

use super::http::{Answer, Patience, Request, Server};
use crate::output;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric, with a row for each set of labels. What is not known has no row.
#[derive(Debug, Clone)]
pub struct Family {
    /// Without its unit and suffix.
    pub name: &'static str,
    /// One line that says what it counts.
    pub help: &'static str,
    /// `bytes`, `seconds`.
    pub unit: Option<&'static str>,
    pub kind: Kind,
    pub rows: Vec<(Labels, Value)>,
}

pub type Labels = Vec<(&'static str, String)>;

#[derive(Debug, Clone)]
pub enum Value {
    Number(f64),
    Histogram {
        sum: f64,
        /// Upper bounds, infinity the last, and how many values are above the one before.
        buckets: Vec<(f64, u64)>,
    },
}

/// A family for each figure that scrapers get, with a row for each of `all` of which it is known.
pub fn families<T>(figures: Figures<T>, all: &[(Labels, &T)]) -> Vec<Family> {
    let scraped =
        figures.iter().copied().flatten().filter_map(|figure| Some((figure, figure.scraped?)));
    let family = |(figure, scraped): (&Figure<T>, Scraped)| {
        let row = |(labels, one): &(Labels, &T)| {
            Some((labels.clone(), Value::Number(figure.scraped_value(one)?)))
        };
        Family {
            name: scraped.name,
            help: figure.help(),
            unit: Some(scraped.unit).filter(|unit| !unit.is_empty()),
            kind: scraped.kind,
            rows: all.iter().filter_map(row).collect(),
        }
    };
    scraped.map(family).collect()
}

#[cfg(test)]
pub fn text_of(families: &[Family]) -> String {
    text(families, Format::Open)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// OpenMetrics 1.0.
    Open,
    /// Prometheus's older format 0.0.4, which other scrapers and promtool read: a family has the
    /// name of its samples, and there is neither unit nor end.
    Text,
}

fn text(families: &[Family], format: Format) -> String {
    let mut out = String::new();
    for family in families {
        let name = match family.unit {
            Some(unit) => format!("{}_{unit}", family.name),
            None => family.name.to_owned(),
        };
        let (kind, suffix) = match family.kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
            Kind::Histogram => ("histogram", ""),
        };
        let head = if format == Format::Text { format!("{name}{suffix}") } else { name.clone() };
        out.push_str(&format!("# HELP {head} {}\n# TYPE {head} {kind}\n", family.help));
        if let (Some(unit), Format::Open) = (family.unit, format) {
            out.push_str(&format!("# UNIT {head} {unit}\n"));
        }
        for (labels, value) in &family.rows {
            rows(&mut out, &format!("{name}{suffix}"), labels, value);
        }
    }
    if format == Format::Open {
        out.push_str("# EOF\n");
    }
    out
}

fn rows(out: &mut String, name: &str, labels: &Labels, value: &Value) {
    let mut row = |suffix: &str, bound: Option<String>, value: f64| {
        let all = bound.iter().map(|bound| ("le", bound.as_str()));
        let all = all.chain(labels.iter().map(|(name, value)| (*name, value.as_str())));
        let all: Vec<String> =
            all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let all = if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) };
        // Writing to a string does not fail.
        let _ = writeln!(out, "{name}{suffix}{all} {value}");
    };
    match value {
        Value::Number(number) => row("", None, *number),
        Value::Histogram { sum, buckets } => {
            let mut count = 0;
            for (bound, more) in buckets {
                count += more;
                let is_last = bound.is_infinite();
                let bound = if is_last { "+Inf".to_owned() } else { bound.to_string() };
                row("_bucket", Some(bound), count as f64);
            }
            row("_sum", None, *sum);
            row("_count", None, count as f64);
        }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The newest metrics, as scrapers read them.
#[derive(Debug, Clone, Default)]
pub struct Newest(Arc<RwLock<Option<Vec<Family>>>>);

impl Newest {
    pub fn set(&self, families: Vec<Family>) {
        if let Ok(mut newest) = self.0.write() {
            *newest = Some(families);
        }
    }

    /// `None` as long as there are none.
    fn text(&self, format: Format) -> Option<String> {
        self.0.read().ok()?.as_ref().map(|families| text(families, format))
    }
}

/// A server of the newest metrics. Dropped, it stops answering.
pub struct Endpoint(Server);

impl Endpoint {
    /// Opens the port, if one is asked for, and says where. Until there are metrics, scrapers get 503.
    pub fn listen(address: Option<SocketAddr>, newest: &Newest) -> Result<Option<Endpoint>> {
        let Some(address) = address else { return Ok(None) };
        let endpoint = Endpoint::open(address, newest)?;
        output::say(&format!("metrics at http://{}/metrics", endpoint.0.address()));
        Ok(Some(endpoint))
    }

    fn open(address: SocketAddr, newest: &Newest) -> Result<Endpoint> {
        let newest = newest.clone();
        let answers = move |request: &Request| answer(request, &newest);
        let server = Server::open(address, Patience::default(), answers)
            .map_err(|error| anyhow!("cannot listen at {address}: {error}; choose another port"))?;
        Ok(Endpoint(server))
    }
}

fn answer(request: &Request, newest: &Newest) -> Answer {
    let path = request.target.split('?').next().unwrap_or_default();
    if path != "/metrics" {
        return Answer::refusal(404, "see /metrics");
    }
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Answer::refusal(405, "GET only");
    }
    let is_open = request.accept.contains("application/openmetrics-text");
    let (kind, format) =
        if is_open { (OPEN_METRICS, Format::Open) } else { (TEXT_FORMAT, Format::Text) };
    // Counters that begin at nothing and jump would be read as a reset.
    match newest.text(format) {
        Some(text) => Answer::good(kind, text),
        None => Answer::refusal(503, "not yet"),
    }
}

pub fn build() -> Family {
    Family {
        name: "cowlab_build_info",
        help: "The program that serves this",
        unit: None,
        kind: Kind::Gauge,
        rows: vec![(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], Value::Number(1.0))],
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn example() -> Vec<Family> {
        let rows = vec![(Vec::new(), Value::Number(7.0))];
        vec![Family { name: "forks", help: "Forks", unit: None, kind: Kind::Counter, rows }]
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{request}\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn metrics_are_served_in_both_formats_once_there_are_any() {
        let newest = Newest::default();
        let endpoint = Endpoint::open("127.0.0.1:0".parse().unwrap(), &newest).unwrap();
        let at = endpoint.0.address();
        assert!(ask(at, "GET /metrics HTTP/1.1").starts_with("HTTP/1.1 503"));
        newest.set(example());
        let old = ask(at, "GET /metrics HTTP/1.1");
        assert!(old.contains("text/plain; version=0.0.4") && !old.contains("# EOF"), "{old}");
        assert!(old.contains("\nforks_total 7\n"), "{old}");
        let open = ask(at, "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text");
        assert!(
            open.contains("openmetrics-text; version=1.0.0") && open.contains("# EOF"),
            "{open}"
        );
        let head = ask(at, "HEAD /metrics?x HTTP/1.1");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask(at, "GET / HTTP/1.1").starts_with("HTTP/1.1 404"));
        assert!(ask(at, "POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405"));
        let error = Endpoint::open(at, &newest).err().unwrap().to_string();
        assert!(error.contains("choose another port"), "{error}");
    }

    #[test]
    fn both_formats_are_written_as_they_are_specified() {
        let value = Value::Histogram { sum: 1.5, buckets: vec![(0.5, 2), (f64::INFINITY, 1)] };
        let rows = vec![(vec![("process", "a \"b\"\\\n".to_owned())], value)];
        let (name, help, unit) = ("stop", "Stops", Some("seconds"));
        let stops = Family { name, help, unit, kind: Kind::Histogram, rows };
        let all = [example(), vec![stops]].concat();
        let rows = "forks_total 7\n# HELP stop_seconds Stops\n# TYPE stop_seconds histogram\n\
                    # UNIT stop_seconds seconds\n\
                    stop_seconds_bucket{le=\"0.5\",process=\"a \\\"b\\\"\\\\\\n\"} 2\n\
                    stop_seconds_bucket{le=\"+Inf\",process=\"a \\\"b\\\"\\\\\\n\"} 3\n\
                    stop_seconds_sum{process=\"a \\\"b\\\"\\\\\\n\"} 1.5\n\
                    stop_seconds_count{process=\"a \\\"b\\\"\\\\\\n\"} 3\n";
        let open = format!("# HELP forks Forks\n# TYPE forks counter\n{rows}# EOF\n");
        assert_eq!(text(&all, Format::Open), open);
        let older = rows.replace("# UNIT stop_seconds seconds\n", "");
        let older = format!("# HELP forks_total Forks\n# TYPE forks_total counter\n{older}");
        assert_eq!(text(&all, Format::Text), older);
    }
}
