// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one declaration of a bench.

/// A bench, in a module of its own: a key for each parameter and a constant for each metric, by
/// their names in capitals, and a struct for the parameters of one measurement, if it has any.
///
/// A parameter is `name: kind = default, option, option(…);` with the options of [`crate::Key`], a
/// part `name: kind;`, a metric `name: unit;`, or `name as word: …;` where a parameter has
/// the same name: NAME_WORD. `cell Name, check` has a method of that name, which refuses what makes
/// no sense together.
macro_rules! bench {
    (
        $(#[doc = $about:literal])+
        $bench:literal;
        $(
            $(#[doc = $cell_doc:literal])+
            cell $cell:ident $(, $check:ident)? {
                $($(#[doc = $help:literal])+
                $field:ident: $kind:ty = $default:expr $(, $option:ident $(($($given:tt)*))?)*;)*
            }
        )?
        $(parts { $($(#[doc = $part_help:literal])+ $part:ident $(as $part_constant:ident)?: $part_kind:ty;)* })?
        $(metrics { $($(#[doc = $metric_help:literal])+ $metric:ident $(as $constant:ident)?: $unit:ident;)* })?
    ) => { pastey::paste! {
        $($(
            $(#[doc = $help])+
            pub const [<$field:upper>]: crate::Key<$kind> =
                crate::Key::new(stringify!($field), concat!($($help),+)).or($default)
                $(.$option($($($given)*)?))*;
        )*)?
        $($(
            $(#[doc = $part_help])+
            pub const [<$part:upper $(_ $part_constant:upper)?>]: crate::Key<$part_kind> =
                crate::Key::new(stringify!($part), concat!($($part_help),+));
        )*)?
        $($(
            $(#[doc = $metric_help])+
            pub const [<$metric:upper $(_ $constant:upper)?>]: crate::Metric = crate::Metric {
                bench: $bench,
                name: stringify!($metric),
                unit: stringify!($unit),
                help: concat!($($metric_help),+),
            };
        )*)?

        /// Everything about it.
        pub const BENCH: &crate::Bench = &crate::Bench {
            name: $bench,
            about: concat!($($about),+),
            params: &[$($(&[<$field:upper>]),*)?],
            parts: &[$($(&[<$part:upper $(_ $part_constant:upper)?>]),*)?],
            metrics: &[$($([<$metric:upper $(_ $constant:upper)?>]),*)?],
        };

        $(
            $(#[doc = $cell_doc])+
            #[derive(Debug, Clone, PartialEq)]
            pub struct $cell { $($(#[doc = $help])+ pub $field: $kind),* }

            impl Default for $cell {
                fn default() -> $cell {
                    $cell { $($field: $default),* }
                }
            }

            impl crate::Cell for $cell {
                const BENCH: &'static crate::Bench = BENCH;

                fn values(&self) -> Vec<(&'static dyn crate::Field, String)> {
                    vec![$((&[<$field:upper>], self.$field.to_string())),*]
                }

                fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
                    match name {
                        $(stringify!($field) => self.$field = [<$field:upper>].parse(text)?,)*
                        _ => return Err(format!("{} has no parameter '{name}'", $bench)),
                    }
                    Ok(())
                }

                $(fn check(&self) -> Result<(), String> {
                    $cell::$check(self)
                })?
            }
        )?
    }};
}

pub(crate) use bench;
