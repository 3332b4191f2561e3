// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of code that copies pages: `causes.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::glob::matches;

/// Why code writes, and what avoids it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    pub id: String,
    #[serde(default)]
    functions: Vec<String>,
    #[serde(default)]
    leaf: Vec<String>,
    #[serde(default)]
    modules: Vec<String>,
    pub means: String,
    pub remedy: String,
    pub source: String,
}

static CAUSES: LazyLock<Vec<Cause>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Table {
        cause: Vec<Cause>,
    }
    let table: Table = toml::from_str(include_str!("causes.toml")).expect("a test reads it");
    table.cause
});

/// The cause of a copy, by its functions, the innermost first, each with the file that has it.
pub fn cause(functions: &[(&str, &str)]) -> Option<&'static Cause> {
    CAUSES.iter().find(|cause| cause.fits(functions))
}

impl Cause {
    fn fits(&self, functions: &[(&str, &str)]) -> bool {
        let any = |patterns: &[String], names: &[&str]| {
            let is_there = |p: &String| names.iter().any(|name| matches(p, name));
            patterns.is_empty() || patterns.iter().any(is_there)
        };
        let file = |path: &'_ str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let names: Vec<&str> = functions.iter().map(|(name, _)| *name).collect();
        let module = functions.first().map(|(_, module)| file(module)).unwrap_or_default();
        any(&self.functions, &names)
            && any(&self.leaf, names.get(..1).unwrap_or_default())
            && any(&self.modules, &[&module])
    }

    /// The function that it is known by, of some.
    pub fn known_by<'a>(&self, mut functions: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        functions.find(|name| self.functions.iter().any(|p| matches(p, name)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_cause_is_whole_and_known_by_something() {
        let mut ids = BTreeSet::new();
        for cause in CAUSES.iter() {
            assert!(ids.insert(&cause.id), "{} is there twice", cause.id);
            let patterns = [&cause.functions, &cause.leaf, &cause.modules];
            assert!(patterns.iter().any(|all| !all.is_empty()), "{} fits everything", cause.id);
            let texts = [&cause.means, &cause.remedy, &cause.source];
            assert!(texts.iter().all(|text| !text.is_empty() && !text.ends_with('.')));
        }
    }

    #[test]
    fn a_collection_is_no_mere_reference() {
        let id = |names: &[&'static str], module: &'static str| {
            let functions: Vec<_> = names.iter().map(|name| (*name, module)).collect();
            cause(&functions).map(|cause| &cause.id[..])
        };
        let collects = ["gc_reset_refs", "deduce_unreachable", "gc_collect_main", "main"];
        assert_eq!(id(&collects, "/usr/bin/python3.11"), Some("cpython-collector"));
        let counts = id(&["_PyEval_EvalFrameDefault"], "/usr/bin/python3.11");
        assert_eq!(counts, Some("cpython-references"));
        let numbers = id(&["_PyDictKeys_GetVersionForCurrentState"], "/usr/bin/python3.11");
        assert_eq!(numbers, Some("cpython-specializes"));
        assert_eq!(id(&["work", "main"], "/srv/work"), None);
        assert_eq!(id(&["_int_free", "work"], "/lib/libc.so.6"), Some("glibc-malloc"));
    }
}
