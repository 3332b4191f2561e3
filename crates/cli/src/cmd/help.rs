// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cowlab help`: the verbs' help, and pages of the documentation as topics.

use anyhow::Result;
use clap::CommandFactory;
use serde_json::json;

use crate::args::{Cli, TOPICS, Topic, topics};
use crate::output;
use crate::usage::WrongUsage;

/// Print the help of a verb, a topic, or what there is of both.
pub fn run(json: bool, words: &[String]) -> Result<()> {
    let topic = TOPICS.iter().find(|topic| [topic.name] == *words);
    if let Some(topic) = topic {
        let text = text(topic);
        return match json {
            true => output::json_of(json!({ "topic": topic.name, "text": text }), &[], &[]),
            false => output::print(&text),
        };
    }
    if json && words.is_empty() {
        let topics: Vec<_> = TOPICS.iter().map(|topic| topic.name).collect();
        return output::json_of(json!({ "topics": topics }), &[], &[]);
    }
    if words.is_empty() {
        return output::print(&format!("{}\n{}\n", Cli::command().render_help(), topics()));
    }
    let mut command = &Cli::command();
    for word in words {
        let Some(verb) = command.find_subcommand(word) else {
            let names: Vec<_> = TOPICS.iter().map(|topic| topic.name).collect();
            let message = format!(
                "no verb and no topic is named '{}': the topics are {}; `cowlab --help` lists the verbs",
                words.join(" "),
                names.join(", ")
            );
            return Err(WrongUsage(message).into());
        };
        command = verb;
    }
    // What clap itself prints for `VERB --help`.
    let line = ["cowlab"].into_iter().chain(words.iter().map(String::as_str)).chain(["--help"]);
    Cli::command().try_get_matches_from(line).map(drop).unwrap_or_else(|help| help.exit());
    Ok(())
}

/// A topic's section of its page, for a terminal: links are their words, blocks are indented.
fn text(topic: &Topic) -> String {
    let (mut lines, mut in_block, mut level) = (Vec::new(), false, 0);
    for line in topic.page.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            in_block = !in_block && !kind.is_empty();
            continue;
        }
        let depth = line.find(|c| c != '#').filter(|_| line.starts_with('#') && !in_block);
        if let Some(depth) = depth {
            match level {
                0 if topic.heading.is_empty() || line[depth..].trim() == topic.heading => {
                    level = depth
                }
                _ if level > 0 && depth <= level => break,
                _ => {}
            }
        }
        // A comment of the page stands between two empty lines.
        let is_second = line.is_empty() && lines.last().is_some_and(String::is_empty);
        if level > 0 && !line.starts_with("<!--") && !is_second {
            lines.push(if in_block { format!("    {line}") } else { line.to_owned() });
        }
    }
    let text = lines.join("\n");
    let paragraphs = text.trim_end().split("\n\n").filter(|paragraph| !is_of_links(paragraph));
    let paragraphs: Vec<String> = paragraphs.map(without_links).collect();
    format!("{}\n", paragraphs.join("\n\n"))
}

/// Whether most of a paragraph are links, which nobody can follow here.
fn is_of_links(text: &str) -> bool {
    let words: usize = text.split('[').skip(1).filter_map(|part| part.find("](")).sum();
    2 * words > without_links(text).len()
}

/// `[words](place)` becomes `words`.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(middle) = rest.find("](") {
        let (words, place) = rest.split_at(middle);
        let (before, words) = words.rsplit_once('[').unwrap_or((words, ""));
        plain += before;
        plain += words;
        rest = place.split_once(')').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_a_text_without_marks_of_its_page() {
        assert!(TOPICS.len() <= 10);
        for topic in &TOPICS {
            let text = text(topic);
            assert!(text.starts_with('#') && text.lines().count() > 2, "{}: {text}", topic.name);
            for mark in ["](", "```", "<!--", "docs/", " · "] {
                assert!(!text.contains(mark), "{}: {mark} in {text}", topic.name);
            }
            assert!(
                Cli::command().find_subcommand(topic.name).is_none(),
                "{} is a verb",
                topic.name
            );
        }
    }

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let page = "# A\none\n## B\n[two\nwords](x.md) `a[1]`\n### C\n```console\n# four\n```\n## D\nfive\n";
        let of = |heading| text(&Topic { name: "x", about: "", page, heading });
        assert_eq!(of("B"), "## B\ntwo\nwords `a[1]`\n### C\n    # four\n");
        assert_eq!(of("D"), "## D\nfive\n");
        assert!(of("").ends_with("five\n"));
        let page = "# A\nsee [one](x.md)\n\nNext: [two](y.md) · [three\nfour](z.md)\n\nlast\n";
        assert_eq!(
            text(&Topic { name: "x", about: "", page, heading: "" }),
            "# A\nsee one\n\nlast\n"
        );
    }
}
