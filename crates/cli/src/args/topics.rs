// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `cowlab help` explains beside the verbs: sections of the documentation's pages.

/// A page of the documentation, or a section of it.
pub struct Topic {
    /// What is typed.
    pub name: &'static str,
    /// A line for the list.
    pub about: &'static str,
    /// The page.
    pub page: &'static str,
    /// The section's heading; the whole page where it is empty.
    pub heading: &'static str,
}

macro_rules! topic {
    ($name:literal, $about:literal, $page:literal, $heading:literal) => {
        Topic {
            name: $name,
            about: $about,
            page: include_str!(concat!("../../../../docs/", $page)),
            heading: $heading,
        }
    };
}

/// All topics, in the order of the list.
pub const TOPICS: [Topic; 10] = [
    topic!("stop", "For how long a fork stops a program", "how-to/stop.md", ""),
    topic!("costs", "What a fork costs, and why", "explanation/cost-model.md", ""),
    topic!("huge-pages", "Why huge pages make forks cheaper", "explanation/huge-pages.md", ""),
    topic!("glossary", "The words of the reports, such as 'first write'", "glossary.md", ""),
    topic!("profile", "The machine profile: measured prices", "reference/usage.md", "calibrate"),
    topic!("permissions", "Which verbs need root", "reference/usage.md", "Permissions"),
    topic!("files", "Where results and caches are", "reference/usage.md", "Files"),
    topic!("units", "Sizes, lists, and the units of figures", "reference/usage.md", "Units"),
    topic!("environment", "Variables that cowlab reads", "reference/usage.md", "Environment"),
    topic!("exit-status", "How cowlab ends", "reference/usage.md", "Exit status"),
];

/// The list for people.
pub fn list() -> String {
    let lines = TOPICS.map(|topic| format!("\n  {:<12} {}", topic.name, topic.about));
    format!("Topics of `cowlab help TOPIC`:{}", lines.concat())
}
