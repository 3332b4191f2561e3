// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each choice: how it is done, what it would cost, how it could be tried.

mod policies;

use cowlab_schema::Command;

use super::forecast::{Forecast, between, spanning};
use super::{Advice, Choice, Server, Surroundings, exactly};
use crate::application::{ApplicationProfile, Children, MappingShare};
use crate::cost::{
    Predicted, Question, Unanswerable, fork_with_huge_pages, plus, predict, primitive, scaled,
};
use crate::profile::MachineProfile;
use crate::steady;

/// Of a fork's stop with base pages, what is left with folios of 64 KiB: 19.4 of 27.6 ms for a
/// redis-server of 1.6 GB (`cowlab bench redis --set-mthp --page-size-bytes 4KiB,64KiB`). No
/// calibration measures it.
const MTHP_STOP_SHARE: f64 = 0.7;
/// A mapping with less than this share of the memory is not worth keeping out of a fork.
const WORTH: f64 = 0.1;

/// The first Valkey that can save without a fork (pull request 4460).
const FORKLESS_SINCE: (u32, u32) = (9, 2);

/// With a smaller share of the copies, in whole percents none, a collector is not worth a step.
const LEAST_COLLECTED: f64 = 0.005;

type Cost<T> = Result<T, String>;

/// A command, of the process where it is one that runs.
fn named(surroundings: &Surroundings, command: Command) -> String {
    let target = surroundings.target.as_ref();
    target.map_or_else(|| command.to_string(), |target| command.of(target))
}

/// The choices for one application on one machine.
pub(super) struct Choices<'a> {
    profile: &'a MachineProfile,
    application: &'a ApplicationProfile,
    surroundings: &'a Surroundings,
    now: Forecast,
    now_notes: Vec<String>,
}

impl<'a> Choices<'a> {
    pub(super) fn new(
        profile: &'a MachineProfile,
        application: &'a ApplicationProfile,
        surroundings: &'a Surroundings,
    ) -> Result<Choices<'a>, Unanswerable> {
        let base = profile.page_size_bytes;
        let asked = predict(profile, &application.question(base, base))?;
        let mut of = Choices {
            profile,
            application,
            surroundings,
            now: Forecast::of(&asked),
            now_notes: asked.notes,
        };
        if application.huge_pages > 0 {
            let split = application.written_regions(base).min(application.huge_pages);
            match of.mixed(application.huge_pages, split) {
                Ok(now) => of.now = now,
                Err(why) => of.now_notes.push(format!("priced as base pages: {why}")),
            }
        }
        Ok(of)
    }

    pub(super) fn as_it_is(&self) -> Advice {
        Advice {
            choice: Choice::AsItIs,
            what: "as it is".into(),
            step: String::new(),
            forecast: Ok(self.now),
            notes: self.now_notes.clone(),
        }
    }

    pub(super) fn all(&self) -> Vec<Advice> {
        let mut all = vec![self.thp()];
        let mthp = self.surroundings.mthp_sizes_bytes.iter();
        all.extend(mthp.map(|size| self.mthp(*size)));
        all.extend([self.hugetlb(), self.tend(), self.freeze(), self.spawn()]);
        all.extend(self.forkless());
        all.extend(self.dont_fork());
        all.extend(self.fewer_threads());
        all.extend(self.policies());
        all
    }

    fn page(&self) -> u64 {
        self.profile.page_size_bytes
    }

    fn huge_page(&self) -> Cost<u64> {
        self.profile.huge_page_bytes.ok_or_else(|| {
            format!(
                "the machine profile has no huge pages: `{}` where they are allowed",
                Command::Calibrate
            )
        })
    }

    /// A primitive cost with its interval.
    fn cost(&self, name: &str) -> Cost<Predicted> {
        primitive(self.profile, name).ok_or_else(|| format!("the machine profile has no {name}"))
    }

    fn ask(&self, question: &Question) -> Cost<Forecast> {
        let answer = predict(self.profile, question).map_err(|error| error.to_string())?;
        Ok(Forecast::of(&answer))
    }

    /// Memory of which some is in huge pages, and some of these are written.
    fn mixed(&self, huge: u64, split: u64) -> Cost<Forecast> {
        let (app, base) = (self.application, self.page());
        let per_huge = self.huge_page()? / base;
        let small = app.pages.saturating_sub(huge * per_huge);
        let split = split.min(huge).min(app.written);
        let question = app.question(base, base);
        let left = Question {
            pages: small,
            written: 0,
            written_before: app.written_before.min(small),
            ..question
        };
        let stop_ns =
            fork_with_huge_pages(self.profile, &left, huge).map_err(|error| error.to_string())?;
        let others = app.written - split;
        let writes =
            self.ask(&Question { pages: others, written: others, written_before: 0, ..question })?;
        let threads = app.threads > 0.0;
        let one_split = self.cost(if threads { "thp_split_threads_ns" } else { "thp_split_ns" })?;
        let entry = self.cost("thp_fork_among_work_ns_per_huge_page")?;
        let rest = self.ask(&Question { pages: small + others, written: others, ..left })?.rest_ns;
        Ok(Forecast {
            stop_ns,
            writes_ns: plus(writes.writes_ns, one_split, split as f64),
            rest_ns: plus(rest, entry, huge as f64),
            extra_bytes: self.now.extra_bytes,
        })
    }

    fn thp(&self) -> Advice {
        let forecast = self.huge_page().and_then(|huge| self.thp_after_many(huge));
        Advice {
            choice: Choice::Thp,
            what: "transparent huge pages".into(),
            step: match self.application.children {
                // Under `always` such a server forbids huge pages to itself.
                Children::Save => {
                    "`disable-thp no` in its configuration, an allocator that asks for them \
                     (MALLOC_CONF=thp:always), and transparent_hugepage/enabled = madvise, or from \
                     Linux 6.18 on prctl(PR_SET_THP_DISABLE, 1, PR_THP_DISABLE_EXCEPT_ADVISED) in \
                     what starts it"
                }
                _ => {
                    "transparent_hugepage/enabled = always (for every program), or \
                     madvise(MADV_HUGEPAGE) in this one"
                }
            }
            .into(),
            forecast,
            notes: vec![
                "huge pages: what is written after a fork is in base pages from then on, until \
                 khugepaged or tend collapses it: this is a fork after many, the low end one where the \
                 writes reach the same pages each time"
                    .into(),
            ],
        }
    }

    /// At a fork after many, with what their writes split and nobody joined.
    fn thp_after_many(&self, huge_page_bytes: u64) -> Cost<Forecast> {
        let app = self.application;
        let regions = app.pages / (huge_page_bytes / self.page());
        let written = app.written_regions(self.page()).min(regions);
        let left = steady::huge_left(regions, written, app.rhythm());
        let settled = self.mixed(left, (written * left).div_ceil(regions.max(1)))?;
        let [best, worst] = [self.mixed(regions - written, 0)?.stop_ns, self.mixed(0, 0)?.stop_ns];
        let value = settled.stop_ns.value;
        let stop_ns = Predicted { value, low: best.low.min(value), high: worst.high.max(value) };
        Ok(Forecast { stop_ns, ..settled })
    }

    fn mthp(&self, size_bytes: u64) -> Advice {
        let kib = size_bytes >> 10;
        // One with a copied page is no folio for the forks after it, and nobody makes it one again.
        let pages = (size_bytes / self.page()).max(1);
        let folios = self.application.pages / pages;
        let written = self.application.written_parts(pages).min(folios);
        let whole = steady::huge_left(folios, written, None) as f64 / folios.max(1) as f64;
        // A new process costs what it does; its entries are what folios save.
        let forecast = self.ask(&self.empty()).map(|empty| {
            let (stop, new) = (self.now.stop_ns, empty.stop_ns.value);
            let share = |ns: f64, share: f64| new + (ns - new).max(0.0) * share;
            let left = 1.0 - (1.0 - MTHP_STOP_SHARE) * whole;
            Forecast {
                stop_ns: Predicted {
                    value: share(stop.value, left),
                    low: share(stop.low, MTHP_STOP_SHARE * MTHP_STOP_SHARE).min(stop.low),
                    high: stop.high,
                },
                ..self.now
            }
        });
        Advice {
            choice: Choice::Mthp(size_bytes),
            what: format!("folios of {kib} KiB"),
            step: format!("hugepages-{kib}kB/enabled = always (for every program)"),
            forecast,
            notes: vec![format!(
                "folios: no machine profile has their costs; the stop is taken to be \
                 {MTHP_STOP_SHARE} of base pages', as a redis-server's was with 64 KiB, where no page of a \
                 folio is written after a fork, and a write copies one base page as before"
            )],
        }
    }

    fn hugetlb(&self) -> Advice {
        let forecast = || -> Cost<Forecast> {
            let huge = self.huge_page()?;
            let regions = self.application.written_regions(self.page());
            let pages = self.application.pages.div_ceil(huge / self.page());
            let entry = self.cost("thp_fork_among_work_ns_per_huge_page")?;
            let copy = scaled(self.cost("memcpy_ns_per_page")?, (huge / self.page()) as f64);
            let writes = plus(exactly(0.0), copy, regions as f64);
            let empty = self.ask(&self.empty())?;
            Ok(Forecast {
                stop_ns: plus(empty.stop_ns, entry, pages as f64),
                rest_ns: plus(empty.rest_ns, entry, pages as f64),
                writes_ns: plus(writes, self.cost("trap_ns")?, regions as f64),
                extra_bytes: exactly((regions * huge) as f64),
            })
        };
        Advice {
            choice: Choice::Hugetlb,
            what: "pages of the hugetlb pool".into(),
            step: "mmap(MAP_PRIVATE | MAP_HUGETLB), vm.nr_hugepages with room for the copies"
                .into(),
            forecast: forecast(),
            notes: vec![
                "hugetlb: a write copies the whole huge page, and a child is killed where the pool \
                 has none left"
                    .into(),
            ],
        }
    }

    fn tend(&self) -> Advice {
        let named = |command| named(self.surroundings, command);
        let forecast = match self.application.collapsible(self.page()) {
            _ if self.surroundings.no_tend.is_some() => {
                Err(self.surroundings.no_tend.clone().unwrap_or_default())
            }
            None => Err("needs the coverage map of a footprint, or to look at the process".into()),
            Some((huge, split)) => {
                let rhythm = self.application.rhythm();
                match rhythm.and_then(|of| of.cannot_keep_up(split, steady::COLLAPSE_NS)) {
                    Some(why) => Err(why),
                    None => self.mixed(huge.max(self.application.huge_pages), split),
                }
            }
        };
        let whose = match self.application.collapsible_regions {
            Some(_) => "of the heap as it is now, as its --dry-run counts it",
            None => {
                "of the heap as the footprint found it: its --dry-run says it of the heap as it is"
            }
        };
        Advice {
            choice: Choice::Tend,
            what: "tend".into(),
            step: format!(
                "{}, then keep {} running",
                named(Command::TendDryRun),
                named(Command::Tend)
            ),
            forecast,
            notes: vec![format!("tend: {whose}, once all that can be collapsed is")],
        }
    }

    /// Spares what the collector alone writes: not more than its share of the copies, where that is known.
    fn freeze(&self) -> Advice {
        let copied = (self.application.written * self.page()) as f64;
        let tables = (self.now.extra_bytes.value - copied).max(0.0);
        let share = self.application.collector_share;
        let left = 1.0 - share.unwrap_or(1.0);
        Advice {
            choice: Choice::Freeze,
            what: "freezing".into(),
            step: "Python: gc.disable() in the parent, gc.freeze() before the fork, gc.enable() in the \
                   child; elsewhere the collector's like"
                .into(),
            forecast: match (self.application.has_collector, share) {
                (false, _) => Err("no garbage collector is known of this program".into()),
                (true, Some(share)) if share < LEAST_COLLECTED => Err(format!(
                    "nothing here: {:.0}% of the copies came from the collector",
                    share * 100.0
                )),
                (true, _) => Ok(Forecast {
                    stop_ns: self.now.stop_ns,
                    rest_ns: self.now.rest_ns,
                    writes_ns: spanning(scaled(self.now.writes_ns, left), self.now.writes_ns),
                    extra_bytes: between(tables + copied * left, self.now.extra_bytes.value),
                }),
            },
            notes: vec![match share {
                None => format!(
                    "freezing: what it saves is unknown, as no stack of a copy was seen: anything from \
                     nothing to all of the writes; `{}` says the collector's share",
                    named(self.surroundings, Command::Blame)
                ),
                Some(share) => format!(
                    "freezing: {:.0}% of the copies came from the collector, and it saves no more",
                    share * 100.0
                ),
            }],
        }
    }

    /// Of a server that is known to save its memory.
    fn forkless(&self) -> Option<Advice> {
        if self.application.children != Children::Save {
            return None;
        }
        let server = self.surroundings.server;
        let here = server.filter(|of| of.is_valkey && of.version >= FORKLESS_SINCE);
        let (major, minor) = FORKLESS_SINCE;
        let how = "`forkless-infrastructure-enabled yes` and `bgsave-default-method forkless`";
        let forecast = match here {
            Some(Server { saves_without_fork: Some(true), .. }) => {
                Err("it saves so already: what is priced is a fork for the AOF or a replica".into())
            }
            _ => Ok(Forecast {
                stop_ns: exactly(0.0),
                writes_ns: exactly(0.0),
                rest_ns: exactly(0.0),
                extra_bytes: exactly(0.0),
            }),
        };
        Some(Advice {
            choice: Choice::Forkless(here.is_some()),
            what: "saving without a fork".into(),
            step: match (here, server) {
                (Some(_), _) => format!("{how} in its configuration"),
                (None, Some(server)) => format!(
                    "Valkey {major}.{minor} or later with {how}; this is {} {}.{}",
                    if server.is_valkey { "Valkey" } else { "Redis" },
                    server.version.0,
                    server.version.1
                ),
                (None, None) => format!(
                    "Valkey {major}.{minor} or later with {how}; which one this is: give \
                     redis://HOST:PORT instead"
                ),
            },
            forecast,
            notes: vec![
                "saving without a fork: nothing is copied on write; instead each key takes 4 bytes \
                 more, and a write to a key waits while that key is saved (not measured here). The \
                 AOF's rewrite and a replica's full synchronisation fork as before, and a module \
                 that does not support it brings the fork back (valkey pull request 4460)"
                    .into(),
            ],
        })
    }

    fn spawn(&self) -> Advice {
        let forecast = || -> Cost<Forecast> {
            if self.application.children.need_memory() {
                return Err("the child works with the parent's memory".into());
            }
            let stop = match self.cost("spawn_ns") {
                Ok(measured) => measured,
                Err(_) => spanning(self.cost("fork_call_ns")?, self.cost("unpinned_process_ns")?),
            };
            Ok(Forecast {
                stop_ns: stop,
                writes_ns: exactly(0.0),
                rest_ns: self.ask(&self.empty())?.rest_ns,
                extra_bytes: exactly(0.0),
            })
        };
        Advice {
            choice: Choice::Spawn,
            what: "posix_spawn".into(),
            step:
                "posix_spawn(), or clone3(CLONE_VM | CLONE_VFORK) and exec, where the child only \
                   executes a program"
                    .into(),
            forecast: forecast(),
            notes: match self.application.children {
                Children::Execute => Vec::new(),
                _ => vec![
                    "posix_spawn: only for children that do nothing but execute a program; the \
                     parent waits for the exec"
                        .into(),
                ],
            },
        }
    }

    /// The largest mappings, each left out, of a program whose children need none of them: any other
    /// child would be killed at its first look at one.
    fn dont_fork(&self) -> Vec<Advice> {
        let app = self.application;
        if app.children != Children::Execute {
            return Vec::new();
        }
        let mut large: Vec<&MappingShare> = app
            .mappings
            .iter()
            .filter(|of| of.pages as f64 >= app.pages as f64 * WORTH && of.name != "stack")
            .collect();
        large.sort_by_key(|of| std::cmp::Reverse(of.pages));
        large.truncate(2);
        large.into_iter().map(|of| self.without(of)).collect()
    }

    fn without(&self, mapping: &MappingShare) -> Advice {
        let app = self.application;
        let pages = app.pages.saturating_sub(mapping.pages);
        let left = ApplicationProfile {
            pages,
            written: app.written.saturating_sub(mapping.written).min(pages),
            written_before: app.written_before.min(pages),
            regions: None,
            ..app.clone()
        };
        Advice {
            choice: Choice::DontFork(mapping.name.clone()),
            what: format!("MADV_DONTFORK on {}", mapping.name),
            step: "madvise(MADV_DONTFORK) on memory that no child reads before it executes".into(),
            forecast: self.ask(&left.question(self.page(), self.page())),
            notes: vec![
                "MADV_DONTFORK: a child that reads what is left out is killed (SIGSEGV); the figure \
                 is for the whole of the mapping"
                    .into(),
            ],
        }
    }

    fn fewer_threads(&self) -> Option<Advice> {
        (self.application.threads > 0.0).then(|| {
            let alone = ApplicationProfile { threads: 0.0, ..self.application.clone() };
            Advice {
                choice: Choice::FewerThreads,
                what: "no other running threads".into(),
                step: "let the other threads sleep while the child lives".into(),
                forecast: self.ask(&alone.question(self.page(), self.page())),
                notes: Vec::new(),
            }
        })
    }

    /// A fork of the same process without its memory.
    fn empty(&self) -> Question {
        let base = self.application.question(self.page(), self.page());
        Question { pages: 0, written: 0, written_before: 0, ..base }
    }
}
