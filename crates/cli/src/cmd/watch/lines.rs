// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame as lines of text, where there is no terminal.

use std::fmt::Write as _;

use cowlab_observe::watch::{Epoch, Frame, Process, Reading};
use cowlab_report::fmt::{count, quantity, several};
use cowlab_report::terminal::clean;
use cowlab_schema::live::words;
use jiff::Timestamp;

/// Processes that get a line; of more, those with most faults.
const LINES: usize = 20;

/// The lines, each with its end.
pub fn text(frame: &Frame) -> String {
    let mut text = String::new();
    let time = Timestamp::from_nanosecond(frame.time_unix_ns.into())
        .map_or_else(|_| String::new(), |time| time.strftime("%H:%M:%S").to_string());
    let mut processes: Vec<&Process> = frame.processes.iter().collect();
    if processes.len() > LINES {
        let rate = |process: &&Process| process.minor_faults_per_s.unwrap_or(0.0);
        processes.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    }
    for process in processes.iter().take(LINES) {
        let _ = writeln!(text, "{time} {}", line(process));
    }
    if processes.len() > LINES {
        let _ = writeln!(text, "{time} and {} more", processes.len() - LINES);
    }
    if let Some(lost @ 1..) = frame.own.lost_events {
        let _ = writeln!(text, "{time} {lost} events were lost");
    }
    text
}

fn line(process: &Process) -> String {
    let mut parts = vec![format!("{} ({})", clean(&process.name), process.pid)];
    if process.ended {
        parts.push("ended".to_owned());
    }
    parts.extend(forks(process));
    parts.extend(words(Process::FIGURES, process));
    match (&process.epoch, &process.last_epoch) {
        (Some(epoch), _) => parts.push(copied(epoch)),
        (None, Some(epoch)) => {
            parts.push(match epoch.copied_bytes {
                Some(_) => format!("last child copied {}", bytes(epoch.copied_bytes)),
                None => "last child was over before it was looked at".to_owned(),
            });
        }
        (None, None) => {}
    }
    parts.push(several(process.children_alive, "child", "children"));
    parts.extend(words(Reading::FIGURES, &process.now));
    parts.join("  ")
}

/// Forks and their stops; `None` where they cannot be seen.
pub fn forks(process: &Process) -> Option<String> {
    let totals = &process.totals;
    let ns = |value: u64| quantity(value as f64, "ns");
    let mut text = several(totals.forks?, "fork", "forks");
    let longest = totals.stops.as_ref().and_then(|stops| stops.last_ns.zip(stops.max_ns));
    if let Some((last, max)) = longest {
        let _ = write!(text, " (stop {}, longest {})", ns(last), ns(max));
    }
    if let Some(spawns @ 1..) = totals.spawns {
        let _ = write!(text, ", {} spawns", count(spawns));
    }
    Some(text)
}

pub fn copied(epoch: &Epoch) -> String {
    if epoch.copied_bytes.is_none() {
        return format!("child {} not looked at yet", epoch.child);
    }
    format!(
        "copied {} of {} for child {}",
        bytes(epoch.copied_bytes),
        bytes(epoch.copied_bytes.zip(epoch.shared_bytes).map(|(a, b)| a + b)),
        epoch.child
    )
}

/// When the page tables of a child were last looked at.
pub fn looked_at(epoch: &Epoch) -> String {
    epoch.walk_age_ns.map_or_else(
        || "not looked at yet".to_owned(),
        |age| format!("looked at {} ago", quantity(age as f64, "ns")),
    )
}

/// Bytes, or that they are not known.
pub fn bytes(value: Option<u64>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| quantity(value as f64, "bytes"))
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::example;
    use super::*;

    #[test]
    fn a_line_says_what_is_known() {
        let text = text(&example());
        for expected in [
            "redis-server (4242)",
            "2 forks (stop 27.6 ms, longest 27.6 ms)",
            "51,23",
            "copied 192 MiB of 1.55 GiB for child 4243",
            "1 child",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn what_is_unknown_is_left_out() {
        let mut frame = example();
        frame.processes[0] = Process { pid: 7, name: "x".into(), ..Process::default() };
        let text = text(&frame);
        assert!(text.contains("x (7)  0 children"), "{text}");
        assert!(!text.contains("faults") && !text.contains("forks"), "{text}");
    }

    #[test]
    fn before_the_first_look_nothing_is_said_to_be_copied() {
        let mut frame = example();
        let epoch = frame.processes[0].epoch.as_mut().unwrap();
        (epoch.copied_bytes, epoch.shared_bytes, epoch.walk_age_ns) = (None, None, None);
        assert_eq!(looked_at(epoch), "not looked at yet");
        epoch.walk_age_ns = Some(2_500_000_000);
        assert_eq!(looked_at(epoch), "looked at 2.50 s ago");
        let text = text(&frame);
        assert!(
            text.contains("child 4243 not looked at yet") && !text.contains("copied"),
            "{text}"
        );
    }

    #[test]
    fn lost_events_are_told() {
        let mut frame = example();
        frame.own.lost_events = Some(3);
        assert!(text(&frame).contains("3 events were lost"));
        frame.own.lost_events = None;
        assert!(!text(&frame).contains("lost"));
    }

    #[test]
    fn many_processes_are_cut() {
        let mut frame = example();
        frame.processes = vec![frame.processes[0].clone(); 50];
        assert_eq!(text(&frame).lines().count(), LINES + 1);
    }
}
