// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live figures, each declared once, as a field of the struct that holds it ([`live!`](crate::live)): what it is,
//! its key in JSON, its row in samples, its metric for scrapers, its column in tables, and its words in lines of text.

use crate::{Field, Metric, fmt};

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Is so now.
    Gauge,
    /// How often values were in which range.
    Histogram,
}

/// How scrapers know a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scraped {
    /// Counter or gauge.
    pub kind: Kind,
    /// Without unit and suffix.
    pub name: &'static str,
    /// A base unit, or nothing.
    pub unit: &'static str,
}

impl Scraped {
    /// Its name in a line of the text formats.
    pub fn full_name(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!("_{}", self.unit) };
        let suffix = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{unit}{suffix}", self.name)
    }
}

/// A figure of a `T`.
pub struct Figure<T> {
    verb: &'static str,
    key: &'static str,
    help: &'static str,
    get: fn(&T) -> Option<f64>,
    /// Its row in samples, if it has one.
    pub sample: Option<Metric>,
    /// Its metric for scrapers, if it has one.
    pub scraped: Option<Scraped>,
    /// Its column, if it has one.
    pub column: Option<Shown>,
    words: Option<Shown>,
}

/// How people see a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// A column's head, or words with the value in place of `{}`.
    pub text: &'static str,
    unit: &'static str,
    /// Left out where it is 0 of all.
    is_seldom: bool,
}

/// All figures of a `T`, field by field.
pub type Figures<T> = &'static [&'static [Figure<T>]];

impl<T> Figure<T> {
    /// A figure that is shown nowhere yet.
    pub const fn new(
        verb: &'static str,
        key: &'static str,
        help: &'static str,
        get: fn(&T) -> Option<f64>,
    ) -> Figure<T> {
        Figure { verb, key, help, get, sample: None, scraped: None, column: None, words: None }
    }

    /// It has a row in samples.
    pub const fn sample(mut self, name: &'static str, unit: &'static str) -> Figure<T> {
        self.sample = Some(Metric { bench: self.verb, name, unit, help: self.help });
        self
    }

    /// Scrapers get it as a counter.
    pub const fn counter(mut self, name: &'static str, unit: &'static str) -> Figure<T> {
        self.scraped = Some(Scraped { kind: Kind::Counter, name, unit });
        self
    }

    /// Scrapers get it as a gauge.
    pub const fn gauge(mut self, name: &'static str, unit: &'static str) -> Figure<T> {
        self.scraped = Some(Scraped { kind: Kind::Gauge, name, unit });
        self
    }

    /// It has a column, where it is known of any.
    pub const fn column(mut self, text: &'static str, unit: &'static str) -> Figure<T> {
        self.column = Some(Shown { text, unit, is_seldom: false });
        self
    }

    /// It has a column, where it is not 0 of all.
    pub const fn seldom(mut self, text: &'static str, unit: &'static str) -> Figure<T> {
        self.column = Some(Shown { text, unit, is_seldom: true });
        self
    }

    /// Lines of text have it.
    pub const fn words(mut self, text: &'static str, unit: &'static str) -> Figure<T> {
        self.words = Some(Shown { text, unit, is_seldom: false });
        self
    }

    /// Its key in JSON.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// What it is.
    pub fn help(&self) -> &'static str {
        self.help.trim()
    }

    /// Its value in the unit of its key; `None` where it is not known.
    pub fn value(&self, of: &T) -> Option<f64> {
        (self.get)(of)
    }

    /// Its value in the base unit that scrapers get.
    pub fn scraped_value(&self, of: &T) -> Option<f64> {
        let is_time =
            self.key.ends_with("_ns") && self.scraped.is_some_and(|it| it.unit == "seconds");
        self.value(of).map(|value| if is_time { value / 1e9 } else { value })
    }
}

/// Those that have a column in a table of `all`.
pub fn columns<T>(figures: Figures<T>, all: &[T]) -> Vec<(&'static Figure<T>, Shown)> {
    let shown = |figure: &'static Figure<T>| {
        let column = figure.column?;
        let is_worth_it = |value: f64| value > 0.0 || !column.is_seldom;
        let mut known = all.iter().filter_map(|one| figure.value(one));
        known.any(is_worth_it).then_some((figure, column))
    };
    figures.iter().copied().flatten().filter_map(shown).collect()
}

/// Those that lines of text have, as far as they are known.
pub fn words<T>(figures: Figures<T>, of: &T) -> impl Iterator<Item = String> {
    figures.iter().copied().flatten().filter_map(move |figure| {
        let words = figure.words?;
        Some(words.text.replace("{}", &words.value(figure.value(of)?)))
    })
}

impl Shown {
    /// A value as people read it.
    pub fn value(&self, value: f64) -> String {
        match self.unit {
            "s" => fmt::age(value),
            "bytes_per_minute" => fmt::quantity((value * 60.0).round(), "bytes"),
            "percent" => format!("{:.1}%", value * 100.0),
            "" => fmt::count(value.round() as u64),
            unit => fmt::quantity(value, unit),
        }
    }
}

/// What a field may be to be a figure.
pub trait Known {
    /// Its value, where it is known.
    fn known(&self) -> Option<f64>;
}

macro_rules! known {
    ($($kind:ty),*) => { $(
        impl Known for $kind {
            fn known(&self) -> Option<f64> {
                Some(*self as f64)
            }
        }
        impl Known for Option<$kind> {
            fn known(&self) -> Option<f64> {
                self.map(|value| value as f64)
            }
        }
    )* };
}

known!(u64, i64, f64);

/// A struct whose fields are figures, and `FIGURES`, the table of them. The verb that prints them is given first. A
/// field is `name: type;`, or `name: type => sample "name" in unit, counter "name" in unit, gauge "name",
/// column "head" in unit, seldom "head" in unit, words "{} forks";`.
#[macro_export]
macro_rules! live {
    (@figure $verb:literal, $struct:ident, $field:ident, $help:expr) => { &[] };
    (@figure $verb:literal, $struct:ident, $field:ident, $help:expr,
        $($word:ident $text:literal $(in $unit:ident)?),+) => {
        &[$crate::live::Figure::new($verb, stringify!($field), $help, |it: &$struct| {
            $crate::live::Known::known(&it.$field)
        })$(.$word($text, concat!($(stringify!($unit))?)))+]
    };
    (
        $verb:literal;
        $(#[$meta:meta])*
        pub struct $struct:ident {
            $(
                $(#[doc = $help:literal])+
                $(@[$attribute:meta])?
                $field:ident: $type:ty $(=> $($word:ident $text:literal $(in $unit:ident)?),+)?;
            )*
        }
    ) => {
        $(#[$meta])*
        pub struct $struct {
            $($(#[doc = $help])+ $(#[$attribute])? pub $field: $type,)*
        }

        impl $struct {
            /// Each field that is a figure.
            pub const FIGURES: $crate::live::Figures<$struct> = &[$(
                $crate::live!(@figure $verb, $struct, $field, concat!($($help),+)
                    $(, $($word $text $(in $unit)?),+)?)
            ),*];
        }
    };
}

/// The figures of a verb, for docs/metrics.md.
pub struct Verb {
    /// The verb.
    pub name: &'static str,
    /// What has its figures.
    pub about: &'static str,
    /// What its samples are told apart by.
    pub parts: &'static [&'static dyn Field],
    /// Sample, metric and what it is.
    pub rows: Vec<(Option<Metric>, Option<Scraped>, &'static str)>,
}

/// The rows of a table of figures.
pub fn rows<T>(
    figures: Figures<T>,
) -> impl Iterator<Item = (Option<Metric>, Option<Scraped>, &'static str)> {
    figures.iter().copied().flatten().map(|figure| (figure.sample, figure.scraped, figure.help()))
}
