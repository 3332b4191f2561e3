// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bench's cell: the parameters of one measurement, and the product of lists of them.

use crate::{Bench, Field, Params, Passed, Stored};

/// The parameters of one measurement.
pub trait Cell: Clone + Default + 'static {
    /// Whose.
    const BENCH: &'static Bench;

    /// Every parameter with its value, as samples have it.
    fn values(&self) -> Vec<(&'static dyn Field, String)>;

    /// Set the parameter `name`.
    fn set(&mut self, name: &str, text: &str) -> Result<(), String>;

    /// Refuse what makes no sense together.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// As its samples carry it.
    fn params(&self) -> Params {
        let stored = |(field, text): &(&dyn Field, String)| match field.stored() {
            Stored::Always => true,
            Stored::Unusual => !field.is_default(text),
            Stored::Never => false,
        };
        let named = |(field, text): (&dyn Field, String)| (field.name().to_owned(), text);
        self.values().into_iter().filter(stored).map(named).collect()
    }

    /// Of a sample. One from before a parameter was there has its default. Fails on a value that is
    /// none, and on a missing one that follows from the machine.
    fn from_params(params: &Params) -> Result<Self, String> {
        let mut cell = Self::default();
        for field in Self::BENCH.params.iter().filter(|field| field.stored() != Stored::Never) {
            match params.get(field.name()) {
                Some(text) => cell.set(field.name(), text)?,
                None if field.by_machine().is_some() => {
                    return Err(format!("{} has no {}", Self::BENCH.name, field.name()));
                }
                None => {}
            }
        }
        Ok(cell)
    }

    /// What its probe is told.
    fn arguments(&self) -> Vec<String> {
        let values = self.values();
        let by = |passed| values.iter().filter(move |(field, _)| field.passed() == passed);
        let dashed = |name: &str| name.replace('_', "-");
        let named =
            by(Passed::Named).map(|(field, text)| format!("--{}={text}", dashed(field.name())));
        named.chain(by(Passed::Positional).map(|(_, text)| text.clone())).collect()
    }
}

/// Every combination of the lists of values, each with the rest of `base`. Fails on the first value
/// that is none.
pub fn product<C: Cell>(base: C, lists: &[(&str, Vec<String>)]) -> Result<Vec<C>, String> {
    let mut cells = vec![base];
    for (name, texts) in lists {
        let mut each = Vec::new();
        for cell in &cells {
            for text in texts {
                let mut cell = cell.clone();
                cell.set(name, text).map_err(|why| format!("{name}: {why}"))?;
                each.push(cell);
            }
        }
        cells = each;
    }
    Ok(cells)
}
