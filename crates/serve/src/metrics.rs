// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint: `GET /metrics`, and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};

use anyhow::{Result, anyhow};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::http::{Answer, Patience, Request, Server};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How values become metrics.
type Encode<T> = fn(&T, &mut DescriptorEncoder<'_>) -> fmt::Result;

/// The newest value, as scrapers read it.
#[derive(Debug)]
pub struct Newest<T> {
    value: Arc<RwLock<Option<T>>>,
    encode: Encode<T>,
}

impl<T> Newest<T> {
    /// No value yet.
    pub fn new(encode: Encode<T>) -> Newest<T> {
        Newest { value: Arc::default(), encode }
    }

    /// Replace the value.
    pub fn set(&self, value: T) {
        if let Ok(mut newest) = self.value.write() {
            *newest = Some(value);
        }
    }

    fn is_there(&self) -> bool {
        self.value.read().is_ok_and(|newest| newest.is_some())
    }
}

impl<T> Clone for Newest<T> {
    fn clone(&self) -> Newest<T> {
        Newest { value: Arc::clone(&self.value), encode: self.encode }
    }
}

impl<T: fmt::Debug + Send + Sync + 'static> Newest<T> {
    /// As OpenMetrics text. Fails if the metrics do not follow the format.
    pub fn text(&self) -> Result<String, fmt::Error> {
        text_of(&registry(self))
    }
}

impl<T: fmt::Debug + Send + Sync + 'static> Collector for Newest<T> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let newest = self.value.read().map_err(|_| fmt::Error)?;
        newest.as_ref().map_or(Ok(()), |value| (self.encode)(value, &mut encoder))
    }
}

fn registry<T: fmt::Debug + Send + Sync + 'static>(newest: &Newest<T>) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(newest.clone()));
    registry
}

fn text_of(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode(&mut text, registry)?;
    Ok(text)
}

/// A server of the newest value. Dropped, it stops answering.
pub struct Endpoint(Server);

impl Endpoint {
    /// Opens the port. Until there is a value, scrapers get 503.
    pub fn open<T: fmt::Debug + Send + Sync + 'static>(
        address: SocketAddr,
        newest: &Newest<T>,
    ) -> Result<Endpoint> {
        let mut registry = registry(newest);
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("cowlab_build", "The program that serves this", version);
        let newest = newest.clone();
        let answers = move |request: &Request| answer(request, &registry, newest.is_there());
        let server = Server::open(address, Patience::default(), answers)
            .map_err(|error| anyhow!("cannot listen at {address}: {error}; choose another port"))?;
        Ok(Endpoint(server))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

fn answer(request: &Request, registry: &Registry, is_ready: bool) -> Answer {
    let path = request.target.split('?').next().unwrap_or_default();
    if path != "/metrics" {
        return Answer::refusal(404, "see /metrics");
    }
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Answer::refusal(405, "GET only");
    }
    // Counters that begin at nothing and jump would be read as a reset.
    if !is_ready {
        return Answer::refusal(503, "not yet");
    }
    let Ok(text) = text_of(registry) else { return Answer::refusal(500, "failed") };
    if request.accept.contains("application/openmetrics-text") {
        Answer::good(OPEN_METRICS, text)
    } else {
        Answer::good(TEXT_FORMAT, as_text_format(&text))
    }
}

/// OpenMetrics text as Prometheus's older text format 0.0.4, which other scrapers and promtool read:
/// a family has the name of its samples, information is a gauge, and there is neither unit nor end.
pub(crate) fn as_text_format(open_metrics: &str) -> String {
    let kinds: BTreeMap<&str, &str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            (Some("#"), Some(word @ ("HELP" | "TYPE")), Some(name), Some(rest)) => {
                let kind = kinds.get(name).copied().unwrap_or_default();
                let suffix = match kind {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                let rest = if word == "TYPE" && kind == "info" { "gauge" } else { rest };
                text.push_str(&format!("# {word} {name}{suffix} {rest}\n"));
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use prometheus_client::encoding::EncodeMetric;
    use prometheus_client::metrics::MetricType;
    use prometheus_client::metrics::counter::ConstCounter;

    use super::*;

    /// A number of forks.
    pub fn example() -> Newest<u64> {
        Newest::new(|forks, encoder| {
            let family = encoder.encode_descriptor("forks", "Forks", None, MetricType::Counter)?;
            ConstCounter::new(*forks).encode(family)
        })
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
        let newest = example();
        let endpoint = Endpoint::open("127.0.0.1:0".parse().unwrap(), &newest).unwrap();
        let at = endpoint.address();
        assert!(ask(at, "GET /metrics HTTP/1.1").starts_with("HTTP/1.1 503"));
        newest.set(7);
        let old = ask(at, "GET /metrics HTTP/1.1");
        assert!(old.contains("text/plain; version=0.0.4") && !old.contains("# EOF"), "{old}");
        assert!(old.contains("\nforks_total 7\n"), "{old}");
        let open = ask(at, "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text");
        assert!(
            open.contains("openmetrics-text; version=1.0.0") && open.contains("# EOF"),
            "{open}"
        );
        assert!(open.contains("cowlab_build_info{version="), "{open}");
        let head = ask(at, "HEAD /metrics?x HTTP/1.1");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask(at, "GET / HTTP/1.1").starts_with("HTTP/1.1 404"));
        assert!(ask(at, "POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405"));
        let error = Endpoint::open(at, &newest).err().unwrap().to_string();
        assert!(error.contains("choose another port"), "{error}");
    }

    #[test]
    fn the_older_format_names_counters_as_their_samples() {
        let newest = example();
        newest.set(7);
        let text = as_text_format(&newest.text().unwrap());
        assert_eq!(text, "# HELP forks_total Forks\n# TYPE forks_total counter\nforks_total 7\n");
        let info = "# HELP a x\n# TYPE a info\na_info{v=\"1\"} 1\n";
        assert!(as_text_format(info).starts_with("# HELP a_info x\n# TYPE a_info gauge\na_info{"));
        let unit = "# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n# EOF\n";
        assert_eq!(as_text_format(unit), "# TYPE a_seconds histogram\n");
    }
}
