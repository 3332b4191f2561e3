// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places for workers in metrics. Pids would make a new series with each worker that is replaced.

/// The most workers that are told apart.
pub const SLOTS: usize = 64;

/// Which worker has which place: it keeps its own, and one that ended leaves it to the next.
#[derive(Debug)]
pub struct Slots([Option<(i32, u64)>; SLOTS]);

impl Default for Slots {
    fn default() -> Slots {
        Slots([None; SLOTS])
    }
}

impl Slots {
    pub fn update(&mut self, alive: impl Iterator<Item = (i32, u64)>) {
        let mut new: Vec<(i32, u64)> = alive.collect();
        for slot in &mut self.0 {
            *slot = slot.filter(|key| new.contains(key));
        }
        new.retain(|key| !self.0.contains(&Some(*key)));
        let free = self.0.iter_mut().filter(|slot| slot.is_none());
        free.zip(new).for_each(|(slot, key)| *slot = Some(key));
    }

    /// The place of one, from 0; `None` where there was none left.
    pub fn of(&self, key: (i32, u64)) -> Option<usize> {
        self.0.iter().position(|slot| *slot == Some(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_and_the_last_ones_have_none() {
        let mut slots = Slots::default();
        slots.update([(10, 1), (11, 1), (12, 1)].into_iter());
        // The second one is replaced, by a process that may even have its number.
        slots.update([(10, 1), (12, 1), (11, 2)].into_iter());
        assert_eq!([(10, 1), (11, 2), (12, 1)].map(|key| slots.of(key)), [0, 1, 2].map(Some));
        assert_eq!(slots.of((11, 1)), None);
        slots.update((0..100).map(|pid| (pid, 3)));
        assert_eq!((slots.of((63, 3)), slots.of((64, 3))), (Some(63), None));
    }
}
