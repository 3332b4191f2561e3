// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One program: [`facts`] reads what is known of it, [`decide`] makes of that what its next fork meets and costs
//! and what would help (pure), [`words`] and [`choices`] say it. Every screen, page and key of `explain`, and the
//! overview's line, come from the same [`Diagnosis`].

pub mod choices;
mod decide;
mod facts;
mod findings;
mod observed;
pub mod words;

pub use decide::{Amount, Costs, Diagnosis, Source, diagnose, mthp, price};
pub use facts::{TargetFacts, parent_of_worker, shared_with_children, trigger, word_of, worker};
pub use findings::{Finding, Weight};
pub use observed::{Copies, Forks, Observed, observe};
