// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A headless Chromium, driven over its debugging pipe: file descriptors 3 and 4, JSON, NUL-ended.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use base64::Engine;
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(120);
/// The first takes a quarter of the others' time to start, and two thirds for each page.
const NAMES: [&str; 4] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    next_id: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with `extra` switches; panics with what to install if there is none.
    pub(crate) fn start(extra: &[&str]) -> Self {
        let program = NAMES
            .into_iter()
            .find(|name| {
                Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success())
            })
            .expect("this test needs a browser: install the package `chromium-headless-shell`");
        let profile = TempDir::new().expect("a temporary folder");
        // The shell puts the two pipes where the browser wants them.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", program])
            .args(["--headless", "--no-sandbox", "--remote-debugging-pipe", "--no-first-run"])
            .args([
                "--disable-quic",
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .args(["--disable-sync", "--disable-gpu", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starting the browser");
        let input = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            while output.read_until(0, &mut bytes).is_ok_and(|length| length > 0) {
                bytes.pop();
                let Ok(message) = serde_json::from_slice(&bytes) else { break };
                if sender.send(message).is_err() {
                    break;
                }
                bytes.clear();
            }
        });
        let (session, events) = (String::new(), Vec::new());
        let mut browser =
            Browser { child, input, messages, session, next_id: 1, events, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sets the window's size and the colour scheme that the page is told.
    pub(crate) fn emulate(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Opens a file and waits until `ready` is true there.
    pub(crate) fn open(&mut self, file: &Path, ready: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        let start = Instant::now();
        while self.eval(ready) != json!(true) {
            assert!(start.elapsed() < PATIENCE, "not ready: {ready}; {:?}", self.complaints());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Saves what the page looks like to a PNG or PDF, where COWLAB_SCREENSHOTS names a folder.
    pub(crate) fn screenshot(&mut self, name: &str, beyond_viewport: bool) {
        let Some(folder) = env::var_os("COWLAB_SCREENSHOTS").map(PathBuf::from) else { return };
        let answer = if name.ends_with(".pdf") {
            let settings = json!({ "preferCSSPageSize": true, "printBackground": false });
            self.call("Page.printToPDF", settings)
        } else {
            let settings = json!({ "captureBeyondViewport": beyond_viewport });
            self.call("Page.captureScreenshot", settings)
        };
        let data = answer["data"].as_str().expect("an image");
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).expect("base64");
        fs::write(folder.join(name), bytes).expect("writing the screenshot");
    }

    /// The value of a JavaScript expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let arguments =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", arguments);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Uncaught exceptions, errors and warnings on the console, and the browser's own errors. Its
    /// own warnings are advice on speed to the library's authors.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning", "assert"].map(Value::from).contains(&event["params"]["type"])
            }
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.events.iter().filter(complaint).map(|event| event["params"].to_string()).collect()
    }

    /// What was asked of the network or the disk, except the page itself and data in it.
    pub(crate) fn requests(&self, page: &Path) -> Vec<String> {
        let own = format!("file://{}", page.display());
        let asked = |event: &Value| {
            let sent = event["method"] == "Network.requestWillBeSent";
            sent.then(|| event["params"]["request"]["url"].as_str().unwrap_or("?").to_owned())
        };
        let within =
            |url: &String| *url == own || url.starts_with("data:") || url.starts_with("blob:");
        self.events.iter().filter_map(asked).filter(|url| !within(url)).collect()
    }

    /// Calls a method of the debugging protocol and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).expect("writing to the browser");
        loop {
            let message = self
                .messages
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("{method}: no answer"));
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            if !message["method"].is_null() {
                self.events.push(message);
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked first, so that its helper processes end as well.
        let close = json!({ "id": self.next_id, "method": "Browser.close" });
        let _ = self.input.write_all(format!("{close}\0").as_bytes());
        for _ in 0..50 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
