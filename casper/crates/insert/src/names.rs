// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a choice of branches of `#if` says: which conditions hold, and which names are function-like macros.

use std::collections::HashMap;

use crate::facts::Facts;

/// Atoms of a reading, and changes of a name that are looked at.
const CHOSEN_MAX: usize = 256;
pub const CHANGES_MAX: usize = 64;

/// The values of the atoms of a reading's branches, sorted; what is too many is not known.
#[derive(Debug, Clone, Default)]
pub struct Chosen(pub Vec<(usize, bool)>);

impl Chosen {
    pub fn get(&self, atom: usize) -> Option<bool> {
        let place = self.0.binary_search_by_key(&atom, |&(of, _)| of).ok()?;
        Some(self.0[place].1)
    }

    pub fn insert(&mut self, atom: usize, value: bool) {
        match self.0.binary_search_by_key(&atom, |&(of, _)| of) {
            Ok(place) => self.0[place].1 = value,
            Err(place) if self.0.len() < CHOSEN_MAX => self.0.insert(place, (atom, value)),
            Err(_) => {}
        }
    }

    /// An atom's value, where that is chosen, or follows from what is.
    pub fn holds(&self, parts: &Parts, atom: usize) -> Option<bool> {
        let parts = || {
            let mut values =
                parts.get(&atom)?.iter().map(|&(of, value)| Some(self.get(of)? == value));
            if values.clone().any(|value| value == Some(false)) {
                return Some(false);
            }
            values.all(|value| value == Some(true)).then_some(true)
        };
        self.get(atom).or_else(parts)
    }

    fn agrees_with(&self, other: &Chosen, parts: &Parts) -> bool {
        self.0.iter().all(|&(atom, value)| other.holds(parts, atom) != Some(!value))
    }
}

/// What all must have their values for an atom to be true: `A && !B`.
pub type Parts = HashMap<usize, Vec<(usize, bool)>>;

/// Where a name becomes a function-like macro, or ceases to be: which it is, and in which readings.
pub type Change = (bool, Vec<Chosen>);

/// What the file says of names, as a reading has it.
pub struct Names<'r> {
    pub facts: &'r Facts,
    pub changes: &'r HashMap<Vec<u8>, Vec<Change>>,
    pub chosen: &'r Chosen,
    pub parts: &'r Parts,
}

impl Names<'_> {
    /// Whether a name is a function-like macro now.
    pub fn is_callable(&self, name: &[u8]) -> bool {
        let fits = |of: &Chosen| {
            self.chosen.agrees_with(of, self.parts) && of.agrees_with(self.chosen, self.parts)
        };
        let changes = self.changes.get(name).map_or(&[][..], Vec::as_slice);
        let mut last = changes.iter().rev().take(CHANGES_MAX);
        last.find(|change| change.1.iter().any(fits)).is_some_and(|change| change.0)
    }
}
