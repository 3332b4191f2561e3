// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why nothing could be attached or read.

/// Why BPF did not work.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// A capability or a setting is missing; the sentence names it.
    #[error("{0}")]
    NotAllowed(String),
    #[error("this kernel has no tracepoint {tracepoint} (or no BPF on it): {reason}")]
    NoTracepoint { tracepoint: &'static str, reason: String },
    #[error("BPF: {what}: {reason}")]
    Kernel { what: &'static str, reason: String },
    #[error("no more than {limit} processes can be watched at once")]
    TooMany { limit: u32 },
}

impl BpfError {
    /// Keeps the whole chain of the loader's error: the kernel's word is at its end.
    pub(crate) fn kernel(what: &'static str, error: &dyn std::error::Error) -> BpfError {
        BpfError::Kernel { what, reason: chain(error) }
    }
}

/// An error and its causes on one line; a verifier's log is cut to its end.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = next.source();
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.len() {
        0..=6 => lines.join("; "),
        count => format!("{}; …; {}", lines[0], lines[count - 5..].join("; ")),
    }
}
