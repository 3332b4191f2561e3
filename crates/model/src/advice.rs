// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What could be done about the cost of an application's forks on a machine, and what each choice
//! would change: a machine profile × an application profile. Reads nothing, measures nothing.

mod choices;
mod forecast;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::application::ApplicationProfile;
use crate::cost::{Predicted, Unanswerable};
use crate::profile::MachineProfile;

pub use forecast::Forecast;

/// What a choice needs of the machine beyond its profile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Surroundings {
    /// Sizes that anonymous memory could be made of besides the base page and the huge page.
    pub mthp_sizes_bytes: Vec<u64>,
    /// Why the program cannot be tended; `None` if it can.
    pub no_tend: Option<String>,
    /// The process as it is named to a verb, where it is one that runs.
    pub target: Option<String>,
    /// What the server says of itself, where it was asked.
    pub server: Option<Server>,
    /// Policies of a patched kernel that are asked for.
    pub policies: Vec<String>,
}

/// A server that saves its memory, as it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Server {
    /// Valkey; else Redis, or what calls itself so.
    pub is_valkey: bool,
    /// The first two numbers.
    pub version: (u32, u32),
    /// Whether it saves without a fork; `None` where it does not know of such a thing.
    pub saves_without_fork: Option<bool>,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Nothing: what fork costs now.
    AsItIs,
    /// Transparent huge pages for all of its memory.
    Thp,
    /// Anonymous memory in folios of this many bytes.
    Mthp(u64),
    /// Pages of the hugetlb pool.
    Hugetlb,
    /// Regions that nobody writes collapsed into huge pages, the rest left alone.
    Tend,
    /// Objects kept where a collector does not write them.
    Freeze,
    /// A mapping kept out of the child.
    DontFork(String),
    /// The other threads asleep while the child lives.
    FewerThreads,
    /// posix_spawn or vfork instead of fork.
    Spawn,
    /// Snapshots by a thread of the server, without a fork.
    /// True where this server has it: a setting and a restart.
    Forkless(bool),
    /// A kernel that copies ahead of the faults, by the policy named.
    Policy(String),
}

/// What it takes to have a choice, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// Nothing of the program: it works from outside, while it runs.
    Outside,
    /// A setting of the machine, for memory that is mapped after it: a restart.
    Setting,
    /// A change of the program.
    Program,
    /// Another kernel.
    Kernel,
}

impl Means {
    /// The same in words.
    pub fn name(self) -> &'static str {
        match self {
            // It ends with the program that does it.
            Means::Outside => "runs beside it",
            Means::Setting => "a setting and a restart",
            Means::Program => "a change of the program",
            Means::Kernel => "another kernel",
        }
    }
}

impl Choice {
    /// What it takes.
    pub fn means(&self) -> Means {
        match self {
            Choice::AsItIs | Choice::Tend => Means::Outside,
            Choice::Thp | Choice::Mthp(_) => Means::Setting,
            Choice::Forkless(true) => Means::Setting,
            Choice::Hugetlb
            | Choice::Freeze
            | Choice::DontFork(_)
            | Choice::FewerThreads
            | Choice::Forkless(false)
            | Choice::Spawn => Means::Program,
            Choice::Policy(_) => Means::Kernel,
        }
    }
}

/// One line of advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// What is done.
    pub choice: Choice,
    /// The same in a few words.
    pub what: String,
    /// How it is done.
    pub step: String,
    /// What it would cost then, or why that cannot be said.
    pub forecast: Result<Forecast, String>,
    /// What the forecast rests on, and what it takes for granted.
    pub notes: Vec<String>,
}

/// A choice that saves less than this share of the time, or of the stop, is not worth taking.
const WORTH: f64 = 0.1;

/// All choices for `application` on the machine of `profile`: first as it is, then those that save
/// something, what takes least first and of those the one that saves most time, then those that save
/// nothing, and at last what cannot be forecast or is not for this program. Fails if the profile
/// cannot price even the application as it is.
pub fn advise(
    profile: &MachineProfile,
    application: &ApplicationProfile,
    surroundings: &Surroundings,
) -> Result<Vec<Advice>, Unanswerable> {
    let of = choices::Choices::new(profile, application, surroundings)?;
    let mut others = of.all();
    let now = of.as_it_is();
    let saves = |then: &Forecast| now.forecast.as_ref().is_ok_and(|now| then.saves_of(now));
    others.sort_by(|a, b| {
        let class = |one: &Advice| match &one.forecast {
            Ok(then) => (u8::from(!saves(then)), one.choice.means()),
            Err(_) => (2, one.choice.means()),
        };
        let cost = |one: &Advice| one.forecast.as_ref().map_or(f64::INFINITY, Forecast::time_ns);
        class(a).cmp(&class(b)).then(cost(a).total_cmp(&cost(b)))
    });
    let mut advice = vec![now];
    advice.append(&mut others);
    Ok(advice)
}

/// What an operator can take today, on this kernel, without changing the program: what takes least comes
/// first, and of that what saves most. `None` where nothing saves a tenth.
pub fn best(advice: &[Advice]) -> Option<(&Advice, Forecast)> {
    let forecast = |one: &Advice| one.forecast.clone().ok();
    let now = advice.iter().find(|one| one.choice == Choice::AsItIs).and_then(forecast)?;
    let best = |measure: fn(&Forecast) -> f64| {
        advice
            .iter()
            .filter(|one| one.choice.means() <= Means::Setting)
            .filter_map(|one| Some((one, forecast(one)?)))
            .filter(|(_, then)| measure(then) < measure(&now) * (1.0 - WORTH))
            .min_by(|a, b| {
                let means = |one: &Advice| one.choice.means();
                means(a.0).cmp(&means(b.0)).then(measure(&a.1).total_cmp(&measure(&b.1)))
            })
    };
    let total = best(Forecast::time_ns);
    let stop = best(|forecast| forecast.stop_ns.value);
    // What takes more is not worth naming before what takes less, if that shortens the stop.
    let total = total.filter(|(one, _)| {
        stop.as_ref().is_none_or(|(other, _)| one.choice.means() <= other.choice.means())
    });
    total.or(stop)
}

/// A figure that is known exactly.
fn exactly(value: f64) -> Predicted {
    Predicted { value, low: value, high: value }
}
