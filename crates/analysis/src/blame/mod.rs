// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies by the code that made them.

mod causes;

use std::collections::BTreeMap;

use cowlab_model::Estimate;
use cowlab_schema::Writer;
use cowlab_store::stacks::{Copy, CopyStacks};

pub use causes::{Cause, cause};

/// What copied the pages that forks share.
#[derive(Debug, Clone, Default)]
pub struct Blame {
    pub pages: f64,
    /// Pages that no fork shared, such as those of files, when a program begins.
    pub other_pages: f64,
    /// Processes that were forked and copied some, by the name of their program; without those of which
    /// only copies at their end were seen, unless there are no others.
    pub workers: BTreeMap<String, usize>,
    /// By the code, the costliest first; that of programs that were ending is last.
    pub places: Vec<Place>,
    /// By what is mapped there, the costliest first.
    pub mappings: Vec<(String, Estimate)>,
    pub told: usize,
    /// Of them, those that go to their outermost frame.
    pub whole: usize,
    /// One copy in so many was told, at the least.
    pub every: u32,
    /// Files of which the innermost functions have no names, in more than a tenth of the copies.
    pub unnamed: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Place {
    pub program: String,
    pub writer: String,
    /// The function that writes and those that call it, as many as tell it from others.
    pub functions: Vec<String>,
    /// Why, where that is known.
    pub cause: Option<&'static Cause>,
    pub pages: Estimate,
    pub share: f64,
    /// Pages of each worker; `None` where the parent writes.
    pub worker_pages: Option<Estimate>,
    /// The time from the fork to half of them; `None` where forks were not seen.
    pub half_ns: Option<u64>,
}

impl Blame {
    /// The share of the copies that was made by programs that were ending.
    pub fn ending_share(&self) -> f64 {
        self.places.iter().filter(|place| place.is_ending()).map(|place| place.share).sum()
    }

    /// The share that a garbage collector made of the copies of programs that went on; `None` where too few
    /// stacks of them were seen. What Ruby writes without names may be its collector's.
    pub fn collector_share(&self) -> Option<f64> {
        let goes_on = || self.places.iter().filter(|place| !place.is_ending());
        let share = |of: &Place| of.share;
        let all: f64 = goes_on().map(share).sum();
        let is_collector = |place: &&Place| {
            place.cause.is_some_and(|cause| COLLECTORS.contains(&cause.id.as_str()))
        };
        let told: usize = goes_on().map(|place| place.pages.count).sum();
        // A sum of nothing is -0.
        let collected = goes_on().filter(is_collector).map(share).sum::<f64>().abs();
        (told >= ENOUGH).then(|| collected / all)
    }
}

impl Place {
    /// Whether its program was ending.
    pub fn is_ending(&self) -> bool {
        is_end(self.cause)
    }

    /// `visit ← collect`.
    pub fn name(&self) -> String {
        self.functions.join(" ← ")
    }

    /// What it is called in two runs.
    fn key(&self) -> (String, String) {
        let functions = || self.functions.iter().map(String::as_str);
        let known = self.cause.filter(|cause| cause.known_by(functions()).is_some());
        let by = known.map_or_else(|| self.name(), |cause| cause.id.clone());
        (format!("{} ({})", self.program, self.writer), by)
    }
}

/// The cause of copies that do not matter, and are told last: the program that made them was ending.
const ENDS: &str = "program-ends";

/// Those of copies that a garbage collector made.
const COLLECTORS: [&str; 5] =
    ["cpython-collector", "ruby-collector", "ruby-objects", "php-collector", "v8-collector"];

/// The fewest stacks that a share is told by.
const ENOUGH: usize = 20;

/// Functions that a place is named by.
const NAMED: usize = 3;

/// Adds up copies, of which there were `total_pages` in all, by `workers` of each program.
pub fn blame(stacks: &CopyStacks, total_pages: f64, workers: &BTreeMap<String, usize>) -> Blame {
    let told: f64 = stacks.copies.iter().map(|copy| f64::from(copy.every)).sum();
    // How many there were is known; the told ones say which.
    let scale = if told > 0.0 { total_pages / told } else { 0.0 };
    let is_own = |copy: &&Copy| *copy.writer == *Writer::Own.to_string();
    let (other, of_forks): (Vec<&Copy>, Vec<&Copy>) = stacks.copies.iter().partition(is_own);
    let mut sum = Summing { all: Weights::default(), scale };
    of_forks.iter().for_each(|copy| sum.all.add(copy));

    let mut by_place: BTreeMap<(String, String, String), Group> = BTreeMap::new();
    let mut by_mapping: BTreeMap<&str, Weights> = BTreeMap::new();
    let child = Writer::Child.to_string();
    // Of each child's pid: its program, and whether all that it copied was at its end.
    let mut ends: BTreeMap<u32, (&str, bool)> = BTreeMap::new();
    for copy in &of_forks {
        let functions = stacks.functions(copy);
        let cause = cause(&functions);
        if *copy.writer == *child {
            ends.entry(copy.pid).or_insert((&copy.process, true)).1 &= is_end(cause);
        }
        let known = cause.filter(|cause| known_by(cause, &functions).is_some());
        let named = named(copy, &functions, cause);
        let key = known.map_or_else(|| named.join("\n"), |cause| cause.id.clone());
        let key = (copy.process.to_string(), copy.writer.to_string(), key);
        let group = by_place.entry(key).or_insert_with(|| Group { cause, ..Group::default() });
        group.weights.add(copy);
        group.since_ns.extend(copy.since_fork_ns.map(|ns| (ns, copy.every)));
        *group.names.entry(named).or_default() += u64::from(copy.every);
        by_mapping.entry(&copy.mapping).or_default().add(copy);
    }
    let left = |program: &str| {
        ends.values().filter(|(of, only_ended)| *of == program && *only_ended).count()
    };
    let going_on: BTreeMap<String, usize> = workers
        .iter()
        .map(|(program, all)| match all.saturating_sub(left(program)) {
            0 => (program.clone(), *all),
            others => (program.clone(), others),
        })
        .collect();
    let mut places: Vec<Place> = by_place
        .into_iter()
        .map(|((program, writer, _), group)| {
            let pages = sum.pages(&group.weights);
            let is_child = writer == child;
            let by = if is_end(group.cause) { workers } else { &going_on };
            let workers = by.get(&program).filter(|_| is_child);
            let most = group.names.iter().max_by_key(|(_, count)| **count);
            Place {
                program,
                writer,
                functions: most.map(|(names, _)| names.clone()).unwrap_or_default(),
                cause: group.cause,
                pages,
                share: group.weights.sum / sum.all.sum,
                worker_pages: workers.map(|workers| pages.scaled(1.0 / *workers as f64)),
                half_ns: half(group.since_ns),
            }
        })
        .collect();
    places.sort_by(|one, two| {
        let by_end = one.is_ending().cmp(&two.is_ending());
        by_end.then(two.pages.value.total_cmp(&one.pages.value))
    });
    let mut mappings: Vec<(String, Estimate)> =
        by_mapping.iter().map(|(name, of)| ((*name).to_owned(), sum.pages(of))).collect();
    mappings.sort_by(|one, two| two.1.value.total_cmp(&one.1.value));
    Blame {
        pages: sum.all.sum * scale,
        other_pages: other.iter().map(|copy| f64::from(copy.every)).sum::<f64>() * scale,
        workers: going_on,
        places,
        mappings,
        told: of_forks.len(),
        whole: of_forks.iter().filter(|copy| copy.is_whole).count(),
        every: stacks.copies.iter().map(|copy| copy.every).max().unwrap_or(1),
        unnamed: unnamed(stacks, &of_forks, sum.all.sum),
    }
}

fn is_end(cause: Option<&Cause>) -> bool {
    cause.is_some_and(|cause| cause.id == ENDS)
}

/// Files without the names of their functions, by the innermost ones of copies.
fn unnamed(stacks: &CopyStacks, copies: &[&Copy], all: f64) -> Vec<String> {
    let mut files: BTreeMap<&str, f64> = BTreeMap::new();
    for copy in copies {
        let functions = stacks.functions(copy);
        let Some((name, module)) = functions.first() else { continue };
        let file = module.rsplit('/').next().unwrap_or_default();
        if !file.is_empty() && name.strip_prefix(file).is_some_and(|rest| rest.starts_with("+0x")) {
            *files.entry(module).or_default() += f64::from(copy.every);
        }
    }
    files.retain(|_, sum| *sum > all / 10.0);
    files.into_keys().map(str::to_owned).collect()
}

#[derive(Default)]
struct Group {
    weights: Weights,
    cause: Option<&'static Cause>,
    names: BTreeMap<Vec<String>, u64>,
    since_ns: Vec<(u64, u32)>,
}

/// How many copies told ones stand for, and the sum of the squares, which says how well it is known.
#[derive(Debug, Clone, Copy, Default)]
struct Weights {
    sum: f64,
    squares: f64,
    count: usize,
    is_sampled: bool,
}

impl Weights {
    fn add(&mut self, copy: &Copy) {
        let every = f64::from(copy.every);
        self.sum += every;
        self.squares += every * every;
        self.count += 1;
        self.is_sampled |= copy.every > 1;
    }
}

struct Summing {
    all: Weights,
    scale: f64,
}

impl Summing {
    /// Pages of a part, with Wilson's interval (1927) of its share; the copies that were told count as
    /// many as would tell as much if they stood for equally many (Kish 1965).
    fn pages(&self, part: &Weights) -> Estimate {
        let all = self.all.sum * self.scale;
        let value = part.sum * self.scale;
        if !self.all.is_sampled {
            return Estimate { value, low: value, high: value, count: part.count };
        }
        const Z: f64 = 1.96;
        let n = self.all.sum * self.all.sum / self.all.squares;
        let share = part.sum / self.all.sum;
        let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
        let half =
            Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        let low = (middle - half).max(0.0) * all;
        Estimate { value, low, high: (middle + half) * all, count: part.count }
    }
}

/// The time until half of the copies.
fn half(mut since_ns: Vec<(u64, u32)>) -> Option<u64> {
    since_ns.sort_unstable();
    let all: u64 = since_ns.iter().map(|(_, every)| u64::from(*every)).sum();
    let mut before = 0;
    since_ns.into_iter().find_map(|(ns, every)| {
        before += u64::from(every);
        (2 * before >= all).then_some(ns)
    })
}

fn known_by<'a>(cause: &Cause, functions: &[(&'a str, &'a str)]) -> Option<&'a str> {
    cause.known_by(functions.iter().map(|(name, _)| *name))
}

/// The functions that a place is named by: the innermost, and of those that called it the first ones that
/// are not in the C library; of what the kernel writes the system call, and who made it.
fn named(copy: &Copy, functions: &[(&str, &str)], cause: Option<&Cause>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    names.extend(copy.syscall.as_ref().map(|name| format!("{name}(2)")));
    for (name, module) in functions {
        let is_library = module.rsplit('/').next().is_some_and(|file| file.starts_with("libc.so"));
        // Of recursion once.
        let is_new = names.is_empty() || !(is_library || names.iter().any(|known| known == name));
        if is_new && names.len() < NAMED {
            names.push((*name).to_owned());
        }
    }
    if let Some(known) = cause.and_then(|cause| known_by(cause, functions))
        && !names.iter().any(|name| name == known)
        && let Some(last) = names.last_mut()
    {
        known.clone_into(last);
    }
    names
}

/// A cause or code in two runs.
#[derive(Debug, Clone)]
pub struct Changed {
    pub who: String,
    pub name: String,
    /// Pages a worker, or of the parent in all; `None` where it was not seen.
    pub pages: [Option<Estimate>; 2],
}

/// Two runs, code by code, the largest change first.
pub fn changes(both: [&Blame; 2]) -> Vec<Changed> {
    let mut found: BTreeMap<(String, String), Changed> = BTreeMap::new();
    for (side, of) in both.into_iter().enumerate() {
        for place in &of.places {
            let key = place.key();
            let changed = found.entry(key.clone()).or_insert_with(|| Changed {
                who: key.0,
                name: place.name(),
                pages: [None; 2],
            });
            changed.pages[side] = Some(place.worker_pages.unwrap_or(place.pages));
        }
    }
    let mut all: Vec<Changed> = found.into_values().collect();
    let value = |of: Option<Estimate>| of.map_or(0.0, |pages| pages.value);
    let size = |of: &Changed| (value(of.pages[1]) - value(of.pages[0])).abs();
    all.sort_by(|one, two| size(two).total_cmp(&size(one)));
    all
}

/// Stacks as lines of `outermost;…;innermost count`, which flame graphs are drawn from.
pub fn folded(stacks: &CopyStacks) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for copy in stacks.copies.iter().filter(|copy| *copy.writer != *Writer::Own.to_string()) {
        let clean = |name: &str| name.replace([';', '\n'], ":");
        let mut names = vec![clean(&format!("{} ({})", copy.process, copy.writer))];
        let functions = stacks.functions(copy);
        names.extend(functions.iter().rev().map(|(name, _)| clean(name)));
        names.extend(copy.syscall.as_ref().map(|name| format!("{name}(2)")));
        *counts.entry(names.join(";")).or_default() += u64::from(copy.every);
    }
    counts.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
}

#[cfg(test)]
mod tests {
    use cowlab_store::stacks::Frame;

    use super::*;

    fn stacks(of: &[(&[&str], u32, &str, u32)]) -> CopyStacks {
        let mut stacks = CopyStacks::default();
        for (functions, pid, writer, every) in of {
            let first = stacks.frames.len();
            stacks.frames.extend(functions.iter().map(|name| Frame {
                functions: vec![((*name).to_owned(), None)],
                ..Frame::default()
            }));
            stacks.copies.push(Copy {
                process: "server".into(),
                writer: (*writer).into(),
                pid: *pid,
                every: *every,
                since_fork_ns: Some(u64::from(*pid)),
                frames: (first as u32..stacks.frames.len() as u32).collect(),
                ..Copy::default()
            });
        }
        stacks
    }

    #[test]
    fn copies_add_up_by_code_and_worker() {
        let all = stacks(&[
            (&["write", "work", "main"], 1, "child", 1),
            (&["write", "work", "main"], 2, "child", 1),
            (
                &["gc_reset_refs", "deduce_unreachable", "subtract", "gc_collect_main"],
                2,
                "child",
                1,
            ),
            (&["_dl_relocate_object"], 3, "own", 1),
        ]);
        let workers = BTreeMap::from([("server".to_owned(), 2)]);
        let blame = blame(&all, 4.0, &workers);
        assert_eq!((blame.pages, blame.other_pages, blame.workers["server"]), (3.0, 1.0, 2));
        let [work, collector] = &blame.places[..] else { panic!("{:?}", blame.places) };
        assert_eq!((work.name(), work.pages.value), ("write ← work ← main".to_owned(), 2.0));
        assert_eq!(work.worker_pages.unwrap().value, 1.0);
        assert_eq!((work.pages.low, work.pages.high), (2.0, 2.0), "all were told");
        assert_eq!(collector.cause.unwrap().id, "cpython-collector");
        assert!(folded(&all).contains("server (child);main;work;write 2"));
    }

    #[test]
    fn what_a_program_that_ends_copies_is_not_its_collectors() {
        let ends =
            ["decref", "dict_dealloc", "gc_collect_main", "finalize_modules", "Py_FinalizeEx"];
        let collects = ["gc_reset_refs", "deduce_unreachable", "gc_collect_main"];
        let mut of: Vec<(&[&str], u32, &str, u32)> = vec![
            (&ends, 1, "child", 1),
            (&ends, 1, "child", 1),
            (&["clean", "__run_exit_handlers", "exit"], 2, "child", 1),
        ];
        of.extend([(&collects[..], 3, "child", 1); 6]);
        of.extend([(&["work", "main"][..], 3, "child", 1); 18]);
        let all = stacks(&of);
        let blame = blame(&all, 27.0, &BTreeMap::from([("server".to_owned(), 3)]));
        assert_eq!(blame.workers["server"], 1, "two were ending");
        assert_eq!(blame.places[0].worker_pages.unwrap().value, 18.0);
        assert_eq!(blame.places[2].worker_pages.unwrap().value, 1.0);
        let ids: Vec<_> =
            blame.places.iter().map(|place| place.cause.map(|cause| &cause.id[..])).collect();
        assert_eq!(ids, [None, Some("cpython-collector"), Some("program-ends")]);
        assert_eq!((blame.ending_share(), blame.collector_share()), (3.0 / 27.0, Some(0.25)));
        let few = self::blame(&stacks(&of[..10]), 10.0, &BTreeMap::new());
        assert_eq!(few.collector_share(), None);
        assert_eq!(Blame::default().collector_share(), None);
    }

    #[test]
    fn a_sample_has_an_interval_and_keeps_the_total() {
        let mut of = vec![(&["one"][..], 1, "parent", 10); 50];
        of.extend(vec![(&["two"][..], 1, "parent", 10); 150]);
        let blame = blame(&stacks(&of), 2100.0, &BTreeMap::new());
        assert_eq!(blame.pages, 2100.0);
        let one = blame.places.iter().find(|place| place.name() == "one").unwrap();
        assert_eq!((one.pages.value, one.worker_pages), (525.0, None));
        // Wilson's interval of 50 in 200: 0.195 to 0.314.
        assert!((one.pages.low / 2100.0 - 0.195).abs() < 1e-3, "{:?}", one.pages);
        assert!((one.pages.high / 2100.0 - 0.314).abs() < 1e-3, "{:?}", one.pages);
    }
}
