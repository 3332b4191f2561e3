// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much memory a parent and its workers share by fork, and how fast that is lost, without root.
//!
//! `family` says who, `look` reads them, `figures` decides (pure), [`Sharing`] goes on looking.

mod family;
mod figures;
mod look;
mod slots;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use cowlab_machine::{ProcessError, Stat};
use rustix::time::ClockId;

use crate::clock::nanoseconds;
use crate::watch::{Wanted, WantedError};
use cowlab_machine::process::Target;
use figures::History;
use look::Look;
use slots::Slots;

pub use figures::{ByKind, Figures, NAME, PID, Worker, figures};
pub use slots::SLOTS;

/// A family that is looked at again and again.
#[derive(Debug)]
pub struct Sharing {
    parent: Target,
    look: Look,
    histories: BTreeMap<(i32, u64), History>,
    slots: Slots,
    glances: Vec<Glance>,
}

/// A process whose faults and size are asked for, by one file that is kept open.
#[derive(Debug)]
struct Glance {
    stat: File,
    seen: (u64, u64),
}

impl Glance {
    /// `None` once it has ended.
    fn read(stat: &File) -> Option<(u64, u64)> {
        // Some 330 bytes.
        let mut text = [0; 1024];
        let got = stat.read_at(&mut text, 0).ok()?;
        Stat::faults_and_pages(&text[..got])
    }

    fn open(of: &Target) -> Option<Glance> {
        let stat = of.open_file("stat").ok()?;
        Some(Glance { seen: Glance::read(&stat)?, stat })
    }
}

impl Sharing {
    /// Looks for the first time.
    pub fn begin(wanted: &Wanted) -> Result<Sharing, WantedError> {
        let mut sharing = Sharing {
            parent: family::parent(wanted)?,
            look: Look::default(),
            histories: BTreeMap::new(),
            slots: Slots::default(),
            glances: Vec::new(),
        };
        sharing.look()?;
        Ok(sharing)
    }

    pub fn parent(&self) -> &Target {
        &self.parent
    }

    /// Whether memory may have changed since the last look: somebody met a fault, gave memory back, or
    /// ended. No copy is made, and nobody forks, without a fault; what KSM merges is not noticed. Costs
    /// a read a process, not a walk of its pages.
    pub fn may_have_changed(&self) -> bool {
        let is_same = |glance: &Glance| Glance::read(&glance.stat) == Some(glance.seen);
        !self.glances.iter().all(is_same)
    }

    /// Looks at everybody's pages. Fails once the parent has ended.
    pub fn look(&mut self) -> Result<(), ProcessError> {
        let family = family::of(&self.parent)?;
        // Before the pages: what changes while they are read is seen as changed the next time.
        self.glances = family.members.iter().filter_map(|one| Glance::open(&one.target)).collect();
        self.look = look::look(&family)?;
        self.note();
        Ok(())
    }

    /// Nothing changed: what was seen is still so.
    pub fn repeat(&mut self) {
        self.look.at_ns = nanoseconds(ClockId::Boottime);
        self.note();
    }

    fn note(&mut self) {
        let members = &self.look.members;
        self.histories.retain(|key, _| members.iter().any(|one| one.key() == *key));
        for one in members {
            self.histories.entry(one.key()).or_default().add(self.look.at_ns, one);
        }
        self.slots.update(members.iter().filter(|one| !one.is_parent()).map(|one| one.key()));
    }

    /// What the last look says, with what is known from those before it.
    pub fn figures(&self) -> Figures {
        Figures::of(self.parent.name(), &self.look, &self.histories, &self.slots)
    }
}

#[cfg(test)]
mod tests;
