// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint: `GET /metrics`, and nothing else.

use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use cowlab_observe::watch::Frame;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::http::{Answer, Patience, Request, Server};
use super::metrics::{Newest, as_text_format};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A server of what is watched.
pub struct Endpoint {
    served: Served,
    newest: Newest,
}

impl Endpoint {
    /// Opens the port.
    pub fn open(address: SocketAddr) -> Result<Endpoint> {
        let newest = Newest::default();
        let is_ready = newest.clone();
        let served = Served::open(address, Box::new(newest.clone()), move || is_ready.is_there())?;
        Ok(Endpoint { served, newest })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.served.address()
    }

    /// A new frame came.
    pub fn show(&mut self, frame: &Frame) {
        self.newest.set(frame);
    }
}

/// A server of anybody's metrics. Dropped, it answers no more.
pub struct Served(Server);

impl Served {
    /// Opens the port; answers with what `collector` tells once `is_ready`.
    pub fn open(
        address: SocketAddr,
        collector: Box<dyn Collector>,
        is_ready: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Served> {
        let mut registry = Registry::default();
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("cowlab_build", "The program that serves this", version);
        registry.register_collector(collector);
        let answers = move |request: &Request| answer(request, &registry, is_ready());
        let server = Server::open(address, Patience::default(), answers)
            .map_err(|error| anyhow!("cannot listen at {address}: {error}; choose another port"))?;
        Ok(Served(server))
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
    let mut text = String::new();
    if encode(&mut text, registry).is_err() {
        return Answer::refusal(500, "failed");
    }
    if request.accept.contains("application/openmetrics-text") {
        Answer::good(OPEN_METRICS, text)
    } else {
        Answer::good(TEXT_FORMAT, as_text_format(&text))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::super::stream::tests::example;
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{request}\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn metrics_are_served_in_both_formats_once_there_are_any() {
        let mut endpoint = Endpoint::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = endpoint.address();
        assert!(ask(at, "GET /metrics HTTP/1.1").starts_with("HTTP/1.1 503"));
        endpoint.show(&example());
        let old = ask(at, "GET /metrics HTTP/1.1");
        assert!(old.contains("text/plain; version=0.0.4") && !old.contains("# EOF"), "{old}");
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
        let error = Endpoint::open(at).err().unwrap().to_string();
        assert!(error.contains("choose another port"), "{error}");
    }
}
