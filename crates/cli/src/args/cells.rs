// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of a bench, made from its declaration, and the cells that they ask for.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use cowlab_schema::{Cell, Field, Key, Reach, Stored, Value, product};

use crate::usage::WrongUsage;

/// Lists of values by parameter, of which every combination is measured: a flag for each parameter
/// that is often set, and `--set` for the others.
#[derive(Debug, Clone)]
pub struct Cells<C> {
    lists: Vec<List>,
    cell: PhantomData<fn() -> C>,
}

/// A parameter's name and the values that it takes in turn.
type List = (&'static str, Vec<String>);

impl<C: Cell> Cells<C> {
    /// Every combination; what follows from the machine is as in `base` unless it was given.
    pub fn product(&self, base: C) -> Result<Vec<C>, WrongUsage> {
        let cells = product(base, &self.lists).map_err(WrongUsage)?;
        cells.iter().try_for_each(Cell::check).map_err(WrongUsage)?;
        Ok(cells)
    }
}

impl<C: Cell> Cells<C> {
    /// What `--set` says where which keys there are follows from another argument.
    pub fn of_settings(set: &[String]) -> Result<Cells<C>, WrongUsage> {
        let of = |text: &String| {
            setting::<C>(text).map_err(|why| WrongUsage(format!("--set {text}: {why}")))
        };
        Ok(Cells { lists: set.iter().map(of).collect::<Result<_, _>>()?, cell: PhantomData })
    }

    /// Of settings that take one value each.
    pub fn single(&self, base: C) -> Result<C, WrongUsage> {
        let mut cells = self.product(base)?;
        Ok(cells.swap_remove(0))
    }

    /// The values that a parameter takes in turn; none where its default is the machine's.
    pub fn list<T: Value>(&self, key: &Key<T>) -> Vec<T> {
        let given = self.lists.iter().rfind(|(name, _)| *name == key.name());
        let usual = || key.default().into_iter().flat_map(split).collect();
        let values = given.map_or_else(usual, |(_, values)| values.clone());
        values.iter().filter_map(|value| key.parse(value).ok()).collect()
    }
}

/// The values of a list.
fn split(values: String) -> Vec<String> {
    values.split(',').map(str::to_owned).collect()
}

/// The size of a base page of this machine.
pub fn base_page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn fields<C: Cell>(reach: Reach) -> impl Iterator<Item = &'static dyn Field> {
    C::BENCH.params.iter().copied().filter(move |field| field.reach() == reach)
}

/// `KEY=VALUE[,VALUE…]` as a list.
fn setting<C: Cell>(text: &str) -> Result<List, String> {
    let known = || fields::<C>(Reach::Set).map(|field| field.name()).collect::<Vec<_>>().join(", ");
    let (key, values) =
        text.split_once('=').ok_or_else(|| format!("write KEY=VALUE: {}", known()))?;
    let field =
        fields::<C>(Reach::Set).find(|field| field.name() == key).ok_or_else(
            || match fields::<C>(Reach::Flag).find(|field| field.name() == key) {
                Some(field) => format!("'{key}' has a flag of its own: --{}", field.flag()),
                None => format!("unknown key '{key}': choose one of {}", known()),
            },
        )?;
    let values: Vec<String> =
        values.split(',').map(|value| field.check(value)).collect::<Result<_, _>>()?;
    match field.stored() {
        Stored::Never if values.len() > 1 => Err(format!("'{key}' takes one value")),
        _ => Ok((field.name(), values)),
    }
}

fn flag(field: &'static dyn Field) -> Arg {
    let default = field.by_machine().map_or(String::new(), |words| format!(" [default: {words}]"));
    let arg = Arg::new(field.name())
        .long(field.flag())
        .value_name(field.name().to_uppercase())
        .help(format!("{}: {}{default}", field.help(), field.short()))
        .long_help(format!("{}: {}{default}", field.help(), field.allowed()))
        .value_parser(move |text: &str| field.check(text))
        .allow_negative_numbers(true);
    let arg = match field.stored() {
        Stored::Never => arg,
        _ => arg.value_delimiter(',').action(ArgAction::Append),
    };
    match field.default() {
        Some(default) => arg.default_value(default),
        None => arg,
    }
}

impl<C: Cell> Args for Cells<C> {
    fn augment_args(command: Command) -> Command {
        let command = command.args(fields::<C>(Reach::Flag).map(flag));
        let rare: Vec<_> = fields::<C>(Reach::Set).collect();
        if rare.is_empty() {
            return command;
        }
        let names: Vec<_> = rare.iter().map(|field| field.name()).collect();
        let line = |field: &&dyn Field| {
            let default = field.by_machine().map(str::to_owned).or(field.default());
            let (name, help, allowed) = (field.name(), field.help(), field.short());
            format!("\n{name}: {help}: {allowed} [default: {}]", default.unwrap_or_default())
        };
        let lines: String = rare.iter().map(line).collect();
        command.arg(
            Arg::new("set")
                .long("set")
                .value_name("KEY=VALUE[,VALUE…]")
                .help(format!("Rarer parameters: {}", names.join(", ")))
                .long_help(format!("Rarer parameters, each with a list of values:\n{lines}"))
                .value_parser(setting::<C>)
                .action(ArgAction::Append),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Cell> FromArgMatches for Cells<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let of = |field: &'static dyn Field| {
            let values: Vec<String> = matches.get_many(field.name())?.cloned().collect();
            Some((field.name(), values))
        };
        let mut lists: Vec<List> = fields::<C>(Reach::Flag).filter_map(of).collect();
        if fields::<C>(Reach::Set).next().is_some() {
            for (key, values) in matches.get_many::<List>("set").unwrap_or_default() {
                lists.retain(|(known, _)| known != key);
                lists.push((key, values.clone()));
            }
        }
        Ok(Cells { lists, cell: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use cowlab_schema::Method;
    use cowlab_schema::fork_sweep::DoFork;
    use cowlab_schema::settings::ccow::{Ccow, LOAD, ZIPF_ALPHA};

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        cells: Cells<DoFork>,
    }

    fn cells(line: &str) -> Result<Vec<DoFork>, String> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        let flags = Flags::try_parse_from(words).map_err(|error| error.to_string())?;
        flags.cells.product(DoFork::default()).map_err(|error| error.0)
    }

    #[test]
    fn lists_make_every_combination() {
        let made = cells(
            "--forks 5,10 --write-fraction 0 --heap-bytes 1MiB,0 --set vmas=0,3 --method vfork",
        );
        let made = made.unwrap();
        assert_eq!(made.len(), 8);
        assert!(made.iter().all(|cell| cell.method == Method::Vfork && cell.write_fraction == 0.0));
        let wanted = DoFork { forks: 10, heap_bytes: 0, vmas: 3, ..made[0].clone() };
        assert!(made.contains(&wanted));
        assert_eq!(cells("").unwrap(), [DoFork::default()]);
    }

    #[test]
    fn settings_are_checked_like_flags() {
        let of = |set: &[&str]| {
            let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
            Cells::<Ccow>::of_settings(&set).map_err(|wrong| wrong.0)
        };
        let some = of(&["load=0.2,0.3", "redis_bytes=1KiB", "redis_bytes=2MiB"]).unwrap();
        let one = some.single(Ccow::default()).unwrap();
        assert_eq!(
            (some.list(&LOAD), one.redis_bytes, one.snapshots),
            (vec![0.2, 0.3], 2 << 20, 1)
        );
        assert_eq!(some.list(&ZIPF_ALPHA), [0.0, 0.5, 0.9, 1.0, 1.1, 1.3]);
        for (set, told) in [
            ("spoon=1", "choose one of zipf_alpha, thresholds_percent"),
            ("load=2", "'2' is not in 0.001..1"),
            ("snapshots=1,2", "takes one value"),
            ("snapshots", "KEY=VALUE"),
        ] {
            let wrong = of(&[set]).unwrap_err();
            assert!(wrong.starts_with("--set") && wrong.contains(told), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_known() {
        for (line, told) in [
            ("--set spoon=true", "unknown key 'spoon': choose one of reap, populated"),
            ("--set forks=3", "--forks"),
            ("--set vmas", "KEY=VALUE"),
            ("--set vmas=70000", "'70000' is not in 0..60000"),
            ("--set pinned=yes", "neither true nor false"),
            ("--write-fraction=-0.1", "'-0.1' is not in 0..1"),
            ("--method spoon", "unknown method 'spoon': choose one of fork"),
            ("--method vfork", "--write-fraction 0"),
        ] {
            let error = cells(line).unwrap_err();
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
