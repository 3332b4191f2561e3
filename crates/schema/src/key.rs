// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameters and metrics: their names, meanings and values.

use std::borrow::Cow;
use std::fmt::{self, Debug, Display};

use crate::units::{bytes_text, parse_bytes};

/// A parameter's value.
pub trait Value: Copy + PartialEq + Debug + Display + Send + Sync + 'static {
    /// Its kind, if it has no names.
    const KIND: &'static str = "";

    /// From flags and samples.
    fn parse(text: &str) -> Result<Self, String>;

    /// Every named value with its meaning.
    fn known() -> Vec<(Self, String)> {
        Vec::new()
    }

    /// If it is a number.
    fn number(self) -> Option<f64> {
        None
    }
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Value for $type {
            const KIND: &'static str = "a number";
            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("'{text}' is not a number here"))
            }
            fn number(self) -> Option<f64> {
                Some(self as f64)
            }
        }
    )+};
}
numbers!(u32, u64, i64, f64);

impl Value for bool {
    const KIND: &'static str = "true or false";
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("'{text}' is neither true nor false"))
    }
}

/// Any text: a program's name, a version. A parsed text is leaked, since parameters are `Copy`: it is a
/// word of the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Text(pub &'static str);

impl Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Value for Text {
    const KIND: &'static str = "a text";
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Text(text.to_owned().leak()))
    }
}

/// A value to which a sample's parameter of kind `T` can be compared.
pub trait Is<T> {
    /// As samples have it.
    fn stored(&self) -> Cow<'_, str>;
}

impl<T: Value> Is<T> for T {
    fn stored(&self) -> Cow<'_, str> {
        self.to_string().into()
    }
}

impl Is<Text> for &str {
    fn stored(&self) -> Cow<'_, str> {
        (*self).into()
    }
}

impl Is<Text> for &String {
    fn stored(&self) -> Cow<'_, str> {
        self.as_str().into()
    }
}

/// How the command line sets a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// By a flag of its own.
    Flag,
    /// By `--set KEY=VALUE`.
    Set,
    /// Not on the command line: the program decides.
    Own,
}

/// When a parameter is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// In every sample.
    Always,
    /// Unless it is the default: older runs stay comparable.
    Unusual,
    /// Never: how something is measured, not what.
    Never,
}

/// How a probe gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// As `--name=VALUE`.
    Named,
    /// As a bare value, in the order of the parameters.
    Positional,
    /// By its driver.
    Apart,
}

/// A parameter of a bench: its declaration, and the key by which samples are picked.
#[derive(Debug, Clone, Copy)]
pub struct Key<T: 'static> {
    name: &'static str,
    help: &'static str,
    default: Option<T>,
    sweep: Option<&'static str>,
    only: &'static [T],
    range: Option<(f64, f64)>,
    is_size: bool,
    by_machine: Option<&'static str>,
    reach: Reach,
    flag: Option<&'static str>,
    stored: Stored,
    passed: Passed,
}

impl<T: Value> Key<T> {
    /// A parameter without a default that the program sets itself.
    pub const fn new(name: &'static str, help: &'static str) -> Key<T> {
        Key {
            name,
            help,
            default: None,
            sweep: None,
            only: &[],
            range: None,
            is_size: false,
            by_machine: None,
            reach: Reach::Own,
            flag: None,
            stored: Stored::Always,
            passed: Passed::Named,
        }
    }

    /// Its default.
    pub const fn or(self, default: T) -> Key<T> {
        Key { default: Some(default), ..self }
    }

    /// It has a flag.
    pub const fn flag(self) -> Key<T> {
        Key { reach: Reach::Flag, ..self }
    }

    /// Its flag has another name, if its own is taken elsewhere.
    pub const fn flagged(self, flag: &'static str) -> Key<T> {
        Key { reach: Reach::Flag, flag: Some(flag), ..self }
    }

    /// It is reached by `--set`.
    pub const fn set(self) -> Key<T> {
        Key { reach: Reach::Set, ..self }
    }

    /// The command line's default, a list.
    pub const fn sweep(self, values: &'static str) -> Key<T> {
        Key { sweep: Some(values), ..self }
    }

    /// The values of its kind that this bench accepts.
    pub const fn only(self, values: &'static [T]) -> Key<T> {
        Key { only: values, ..self }
    }

    /// Both bounds are included.
    pub const fn within(self, low: f64, high: f64) -> Key<T> {
        Key { range: Some((low, high)), ..self }
    }

    /// It is bytes, and may be written with a unit.
    pub const fn size(self) -> Key<T> {
        Key { is_size: true, ..self }
    }

    /// The machine determines its default; in words, how.
    pub const fn by_machine(self, words: &'static str) -> Key<T> {
        Key { by_machine: Some(words), ..self }
    }

    /// Stored only where it is not the default.
    pub const fn rare(self) -> Key<T> {
        Key { stored: Stored::Unusual, ..self }
    }

    /// Never stored.
    pub const fn unstored(self) -> Key<T> {
        Key { stored: Stored::Never, ..self }
    }

    /// An argument of its probe without a flag.
    pub const fn positional(self) -> Key<T> {
        Key { passed: Passed::Positional, ..self }
    }

    /// Not an argument of its probe, or one made by hand.
    pub const fn apart(self) -> Key<T> {
        Key { passed: Passed::Apart, ..self }
    }

    /// Its name in samples.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Parses and checks a value.
    pub fn parse(&self, text: &str) -> Result<T, String> {
        let value = match self.is_size {
            true => T::parse(&parse_bytes(text)?.to_string())?,
            false => T::parse(text).map_err(|why| match (T::known().is_empty(), self.range) {
                (false, _) => {
                    format!("unknown {} '{text}': choose one of {}", self.name, self.short())
                }
                (true, Some(_)) => format!("'{text}' is not in {}", self.short()),
                (true, None) => why,
            })?,
        };
        if let (Some(number), Some((low, high))) = (value.number(), self.range)
            && !(low..=high).contains(&number)
        {
            return Err(format!("'{text}' is not in {}..{}", self.text(low), self.text(high)));
        }
        if !self.only.is_empty() && !self.only.contains(&value) {
            return Err(format!("'{text}' is not measured here: choose one of {}", self.short()));
        }
        Ok(value)
    }

    /// Its value in a sample's parameters.
    pub fn of(&self, params: &crate::Params) -> Option<T> {
        T::parse(params.get(self.name)?).ok()
    }

    /// Put it into a sample's parameters.
    pub fn put(&self, params: &mut crate::Params, value: impl Is<T>) {
        params.insert(self.name.to_owned(), value.stored().into_owned());
    }

    /// The choices that this bench knows, with their meanings.
    fn known(&self) -> impl Iterator<Item = (T, String)> {
        let is_known = |value: &T| self.only.is_empty() || self.only.contains(value);
        T::known().into_iter().filter(move |(value, _)| is_known(value))
    }

    fn text(&self, number: f64) -> String {
        if self.is_size { bytes_text(number as u64) } else { number.to_string() }
    }
}

/// A [`Key`] of any type.
pub trait Field: Debug + Sync {
    /// Its name in samples.
    fn name(&self) -> &'static str;
    /// What it is, in a sentence.
    fn help(&self) -> &'static str;
    /// Its possible values: names, or a range.
    fn short(&self) -> String;
    /// The same with each name's meaning.
    fn allowed(&self) -> String;
    /// The command line's default, if any.
    fn default(&self) -> Option<String>;
    /// How the machine determines its default, in words.
    fn by_machine(&self) -> Option<&'static str>;
    /// `text` as samples have it.
    fn check(&self, text: &str) -> Result<String, String>;
    /// How it is reached on the command line.
    fn reach(&self) -> Reach;
    /// Its flag, without leading dashes.
    fn flag(&self) -> String;
    /// When it is stored.
    fn stored(&self) -> Stored;
    /// How its probe is told.
    fn passed(&self) -> Passed;
    /// Whether a value, as samples have it, is the default.
    fn is_default(&self, stored: &str) -> bool;
}

impl<T: Value> Field for Key<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn help(&self) -> &'static str {
        self.help.trim()
    }

    fn short(&self) -> String {
        let known: Vec<_> = self.known().map(|(value, _)| value.to_string()).collect();
        match (&known[..], self.range) {
            ([], Some((low, high))) => format!("{}..{}", self.text(low), self.text(high)),
            ([], None) if self.is_size => "a size".to_owned(),
            ([], None) => T::KIND.to_owned(),
            _ => known.join(", "),
        }
    }

    fn allowed(&self) -> String {
        let known: Vec<_> =
            self.known().map(|(value, meaning)| format!("{value} ({meaning})")).collect();
        if known.is_empty() { self.short() } else { known.join("; ") }
    }

    fn default(&self) -> Option<String> {
        let one = |value: &T| match value.number() {
            Some(number) => self.text(number),
            None => value.to_string(),
        };
        match self.by_machine {
            Some(_) => None,
            None => self.sweep.map(str::to_owned).or_else(|| self.default.as_ref().map(one)),
        }
    }

    fn by_machine(&self) -> Option<&'static str> {
        self.by_machine
    }

    fn check(&self, text: &str) -> Result<String, String> {
        Ok(self.parse(text)?.to_string())
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    fn flag(&self) -> String {
        self.flag.unwrap_or(self.name).replace('_', "-")
    }

    fn stored(&self) -> Stored {
        self.stored
    }

    fn passed(&self) -> Passed {
        self.passed
    }

    fn is_default(&self, stored: &str) -> bool {
        self.default.is_some_and(|value| value.to_string() == stored)
    }
}

/// Something that a bench measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metric {
    /// The bench that measures it.
    pub bench: &'static str,
    /// Its name in samples, which ends with its unit.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
}

impl Metric {
    /// What it is, in a sentence.
    pub fn what(&self) -> &'static str {
        self.help.trim()
    }

    /// The same time in instructions, if its bench counts them.
    pub fn instructions(&self) -> Option<Metric> {
        let bench = crate::BENCHES.iter().find(|bench| bench.name == self.bench)?;
        bench.metric(&in_instructions(self.name)?)
    }
}

/// A metric's or unit's name when the clock counts instructions; `None` if it is no time.
pub fn in_instructions(name: &str) -> Option<String> {
    match name.strip_suffix("ns").filter(|rest| rest.is_empty() || rest.ends_with('_')) {
        Some(rest) => Some(format!("{rest}instructions")),
        None if name.contains("ns_per_") => Some(name.replace("ns_per_", "instructions_per_")),
        None => None,
    }
}

/// A measurement: its parameters and metrics.
#[derive(Debug)]
pub struct Bench {
    /// Its name in samples and, where it can be run by itself, on the command line.
    pub name: &'static str,
    /// What is measured, in a sentence.
    pub about: &'static str,
    /// Its parameters, as declared.
    pub params: &'static [&'static dyn Field],
    /// Keys that divide its answers: quantiles, parts of a run.
    pub parts: &'static [&'static dyn Field],
    /// Its answers.
    pub metrics: &'static [Metric],
}

impl Bench {
    /// Its metric of that name.
    pub fn metric(&self, name: &str) -> Option<Metric> {
        self.metrics.iter().find(|metric| metric.name == name).copied()
    }
}
