// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes docs/metrics.md.

use std::fmt::Write;

use crate::live::Verb;
use crate::summary::{SUMMARIES, Summary};
use crate::{BENCHES, Bench, Field, Reach, SETTINGS, Stored};

const HEAD: &str = "# Parameters and metrics

Every bench with what it is asked and what it answers, by the names in samples (`--json`,
`samples.ndjson.gz`). A parameter with a flag is set by it, with dashes (`--heap-bytes 64MiB`), another by
`--set KEY=VALUE`; both take lists, and all combinations are measured. Sizes are bytes, or have a unit.

Made by `make docs/metrics.md`.
";

/// The page, with the live figures of these verbs.
pub fn page(verbs: &[Verb]) -> String {
    let mut page = HEAD.to_owned();
    for bench in BENCHES.iter().chain(SETTINGS) {
        bench_tables(bench, &mut page).expect("a string takes everything");
    }
    for verb in verbs {
        live(verb, &mut page).expect("a string takes everything");
    }
    summaries(&mut page).expect("a string takes everything");
    page
}

fn summaries(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## `summary` of each verb\n\n`report RUN` has that of the verb that made the run. The lines of \
         `watch` and of `tend` are in [watch.md](reference/watch.md) and [tend.md](reference/tend.md).\n\n\
         | verb | key | what |\n| --- | --- | --- |"
    )?;
    for Summary { verbs, is_list, keys } in SUMMARIES {
        let verbs: Vec<String> = verbs.iter().map(|verb| format!("`{verb}`")).collect();
        let each = if *is_list { ", each" } else { "" };
        for (key, what) in *keys {
            writeln!(page, "| {}{each} | `{key}` | {what} |", verbs.join(", "))?;
        }
    }
    Ok(())
}

fn bench_tables(bench: &Bench, page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## {}\n\n{}.\n", bench.name, bench.about.trim())?;
    // Internal parameters that no sample has are left out.
    let is_listed =
        |field: &&&dyn Field| (field.stored(), field.reach()) != (Stored::Never, Reach::Own);
    if bench.params.iter().any(|field| is_listed(&field)) {
        writeln!(
            page,
            "| parameter | what | values | default | by |\n| --- | --- | --- | --- | --- |"
        )?;
    }
    for field in bench.params.iter().filter(is_listed) {
        let default = match (field.by_machine(), field.default()) {
            (Some(words), _) => words.to_owned(),
            (None, Some(default)) => format!("`{default}`"),
            (None, None) => "–".to_owned(),
        };
        let by = match field.reach() {
            Reach::Flag => format!("`--{}`", field.flag()),
            Reach::Set => "`--set`".to_owned(),
            Reach::Own => "–".to_owned(),
        };
        let rare = match field.stored() {
            _ if bench.metrics.is_empty() => "",
            Stored::Always => "",
            Stored::Unusual => "; stored where it is not the default",
            Stored::Never => "; not stored",
        };
        let (name, help, allowed) = (field.name(), field.help(), field.allowed());
        writeln!(page, "| `{name}` | {help}{rare} | {allowed} | {default} | {by} |")?;
    }
    parts(bench.parts, page)?;
    if !bench.metrics.is_empty() {
        writeln!(page, "\n| metric | what |\n| --- | --- |")?;
    }
    for metric in bench.metrics {
        writeln!(page, "| `{}` | {} |", metric.name, metric.what())?;
    }
    Ok(())
}

fn parts(parts: &[&dyn Field], page: &mut String) -> std::fmt::Result {
    if !parts.is_empty() {
        writeln!(page, "\n| part of an answer | what | values |\n| --- | --- | --- |")?;
    }
    for field in parts {
        writeln!(page, "| `{}` | {} | {} |", field.name(), field.help(), field.allowed())?;
    }
    Ok(())
}

fn live(verb: &Verb, page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## {}, live\n\n{}.", verb.name, verb.about)?;
    parts(verb.parts, page)?;
    writeln!(page, "\n| in samples | for scrapers | what |\n| --- | --- | --- |")?;
    let name = |name: Option<String>| name.map_or("–".to_owned(), |name| format!("`{name}`"));
    for (sample, scraped, help) in &verb.rows {
        let sample = name(sample.map(|metric| metric.name.to_owned()));
        let scraped = name(scraped.map(|metric| metric.full_name()));
        writeln!(page, "| {sample} | {scraped} | {help} |")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_said_once_and_metrics_end_with_their_unit() {
        let names: BTreeSet<_> = BENCHES.iter().map(|bench| bench.name).collect();
        assert_eq!(names.len(), BENCHES.len());
        for bench in BENCHES {
            let fields = bench.params.iter().chain(bench.parts);
            let all: Vec<_> = fields
                .filter(|field| field.stored() != Stored::Never)
                .map(|field| field.name())
                .collect();
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{}", bench.name);
            for metric in bench.metrics {
                // Older than the rule.
                let counted = [
                    "written",
                    "mapped",
                    "wasted",
                    "unknown",
                    "checked",
                    "attempts",
                    "success",
                    "changed",
                    "differing",
                    "first_writes",
                    "faults_left",
                    "unseen",
                    "vmas",
                    "vmas_anon",
                ];
                let before = counted.iter().any(|word| metric.name.ends_with(word));
                assert!(
                    before || metric.name.ends_with(metric.unit),
                    "{} in {}",
                    metric.name,
                    metric.unit
                );
            }
        }
    }
}
