// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint: `GET /metrics`, and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Result, anyhow};
use cowlab_observe::watch::Frame;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tiny_http::{Header, Method, Request, Response, Server};

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
        self.served.address
    }

    /// A new frame came.
    pub fn show(&mut self, frame: &Frame) {
        self.newest.set(frame);
    }
}

/// A server of anybody's metrics. Dropped, it answers no more.
pub struct Served {
    address: SocketAddr,
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Opens the port; answers with what `collector` tells once `is_ready`.
    pub fn open(
        address: SocketAddr,
        collector: Box<dyn Collector>,
        is_ready: impl Fn() -> bool + Send + 'static,
    ) -> Result<Served> {
        let server = Server::http(address)
            .map_err(|error| anyhow!("cannot listen at {address}: {error}; choose another port"))?;
        let address = server.server_addr().to_ip().unwrap_or(address);
        let mut registry = Registry::default();
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("cowlab_build", "The program that serves this", version);
        registry.register_collector(collector);
        let server = Arc::new(server);
        let answering = Arc::clone(&server);
        let thread = std::thread::spawn(move || {
            for request in answering.incoming_requests() {
                // Who asks and goes before it is answered is no error of ours.
                let _ = answer(request, &registry, is_ready());
            }
        });
        Ok(Served { address, server, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(request: Request, registry: &Registry, is_ready: bool) -> std::io::Result<()> {
    let path = request.url().split('?').next().unwrap_or_default();
    if path != "/metrics" {
        return request.respond(Response::from_string("see /metrics\n").with_status_code(404));
    }
    if !matches!(request.method(), Method::Get | Method::Head) {
        return request.respond(Response::from_string("GET only\n").with_status_code(405));
    }
    // Counters that begin at nothing and jump would be read as a reset.
    if !is_ready {
        return request.respond(Response::from_string("not yet\n").with_status_code(503));
    }
    let accepts = |header: &&Header| header.field.equiv("Accept");
    let accepted = request.headers().iter().find(accepts);
    let is_open =
        accepted.is_some_and(|it| it.value.as_str().contains("application/openmetrics-text"));
    let mut text = String::new();
    if encode(&mut text, registry).is_err() {
        return request.respond(Response::from_string("failed\n").with_status_code(500));
    }
    let (kind, text) =
        if is_open { (OPEN_METRICS, text) } else { (TEXT_FORMAT, as_text_format(&text)) };
    let header = Header::from_bytes("Content-Type", kind).expect("a constant header");
    request.respond(Response::from_string(text).with_header(header))
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
        assert!(ask(at, "GET / HTTP/1.1").starts_with("HTTP/1.1 404"));
        assert!(ask(at, "POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405"));
        let error = Endpoint::open(at).err().unwrap().to_string();
        assert!(error.contains("choose another port"), "{error}");
    }
}
