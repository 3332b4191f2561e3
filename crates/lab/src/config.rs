// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Config fragments, and whether a kernel's configuration has what they ask for.
//!
//! Kconfig drops an option without a word when something that it depends on is off. A test that
//! relies on it would then be skipped and look green.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// `CONFIG_SMP`.
    pub name: String,
    /// `y`, a number or a quoted text; `None` for "is not set".
    pub value: Option<String>,
    /// The line, from 1.
    pub line: usize,
}

/// The options that a configuration or fragment sets; the last one of a name counts.
pub fn parse(text: &str) -> Vec<Setting> {
    let mut last: BTreeMap<String, Setting> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        if let Some((name, value)) = option_of(line.trim()) {
            last.insert(name.clone(), Setting { name, value, line: index + 1 });
        }
    }
    last.into_values().collect()
}

fn option_of(line: &str) -> Option<(String, Option<String>)> {
    if let Some(unset) = line.strip_prefix("# CONFIG_") {
        let name = unset.strip_suffix(" is not set")?;
        return Some((format!("CONFIG_{name}"), None));
    }
    let (name, value) = line.split_once('=')?;
    name.starts_with("CONFIG_").then(|| (name.to_owned(), Some(value.to_owned())))
}

/// What of a fragment a configuration lacks: one sentence an option.
pub fn unmet(wanted: &[Setting], configuration: &str) -> Vec<String> {
    let there: BTreeMap<String, Option<String>> =
        parse(configuration).into_iter().map(|option| (option.name, option.value)).collect();
    let is_off = |value: &Option<String>| value.as_deref().is_none_or(|value| value == "n");
    let judge = |option: &Setting| {
        let is = there.get(&option.name).cloned().flatten();
        if is == option.value || (is_off(&is) && is_off(&option.value)) {
            return None;
        }
        let asked = option.value.as_deref().unwrap_or("n");
        Some(match is {
            Some(value) => format!("{} is {value}, not {asked}", option.name),
            None => format!("{}={asked} is not set", option.name),
        })
    };
    wanted.iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_were_dropped_or_differ_are_named() {
        let wanted = parse(
            "# a reason\nCONFIG_A=y\nCONFIG_B=y\nCONFIG_C=12\n# CONFIG_D is not set\n\
             # CONFIG_E is not set\nCONFIG_F=\"x\"\nCONFIG_G=n\nCONFIG_B=n\nCONFIG_B=y\n",
        );
        assert_eq!(wanted.len(), 7);
        assert_eq!(
            wanted[1],
            Setting { name: "CONFIG_B".into(), value: Some("y".into()), line: 10 }
        );
        let configuration = "CONFIG_A=y\nCONFIG_C=13\n# CONFIG_D is not set\nCONFIG_E=y\n\
                             CONFIG_F=\"x\"\n";
        assert_eq!(
            unmet(&wanted, configuration),
            ["CONFIG_B=y is not set", "CONFIG_C is 13, not 12", "CONFIG_E is y, not n",]
        );
    }
}
