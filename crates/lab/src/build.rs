// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a variant of the kernel, or finds it in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cowlab_schema::choices;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::config;
use crate::key::{Key, hash_of_file};
use crate::make::Make;
use crate::overlay::Overlay;
use crate::patch::Offset;
use crate::series::{KernelFolder, Series, Step};
use crate::source::{BASE, Source, SourceChoice};
use crate::tools;
use crate::tree;
use crate::watch::Watch;

/// What a variant takes beside its source's files, when it is built for the first time.
const NEEDED_BYTES: u64 = 1 << 30;

/// Lines of a first build, for the progress until one was counted.
const TYPICAL_OBJECTS: u64 = 2350;

choices! {
    /// Which kernel; its release ends with its name.
    Variant, "variant", {
        /// the source as it is
        Plain = "plain",
        /// with the steps that Linux itself could take
        Upstream = "upstream",
        /// with those of research on top, each switched off until somebody switches it on
        Patched = "patched",
        /// the same with the kernel's own checks: KASAN, lockdep, DEBUG_VM
        Debug = "debug",
        /// the same as patched, with the kernel's own search for data races
        Kcsan = "kcsan",
        /// the same as patched, with functions that tell CASPER when they begin and end
        Traced = "traced",
    }
}

impl Variant {
    /// The series whose steps it has.
    pub fn series(self) -> &'static [Series] {
        match self {
            Variant::Plain => &[],
            Variant::Upstream => &[Series::Upstream],
            _ => Series::ALL,
        }
    }

    /// Whether it has the settings that policies are made of.
    pub fn has_policies(self) -> bool {
        self.series().contains(&Series::Research)
    }
}

/// Changes sources after the steps: for a variant that needs more than patches.
pub trait Prepare {
    /// What identifies the change; part of the kernel's key.
    fn identity(&self) -> String;
    /// The kernel's files that it changes.
    fn files(&self) -> Vec<PathBuf>;
    /// Change them in `folder`, where they are under their paths; more may be added there.
    fn run(&self, folder: &Path) -> Result<()>;
}

/// What to build.
pub struct Order<'a> {
    /// Which variant.
    pub variant: Variant,
    /// Of which source; what was fetched last if not given.
    pub source: Option<SourceChoice>,
    /// The last step that is applied; all of them if not given.
    pub through: Option<String>,
    /// Compilers at once.
    pub jobs: usize,
    /// What the variant needs done to its sources.
    pub prepare: Option<&'a dyn Prepare>,
}

impl Order<'_> {
    /// The variant with all steps, of what was fetched last, on as many CPUs as this process may use.
    pub fn of(variant: Variant) -> Order<'static> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Order { variant, source: None, through: None, jobs, prepare: None }
    }
}

/// What a built kernel was made of: `build.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BuildInfo {
    /// Which variant.
    pub variant: Variant,
    /// The hash of all that went in.
    pub key: String,
    /// The source.
    pub source: Source,
    /// The steps that were applied.
    pub steps: Vec<String>,
    /// Hunks that were found at another line than their own.
    pub offsets: Vec<Offset>,
    /// First line of `gcc --version`.
    pub compiler: String,
    /// SHA-256 of its `.config`.
    pub config_sha256: String,
    /// When it was built.
    pub built: Timestamp,
    /// How long that took.
    pub duration_s: f64,
    /// Lines of make's output that name an object.
    pub objects: u64,
}

impl BuildInfo {
    /// What tells it from kernels of other variants and releases: `plain`, `plain-7.3`.
    pub fn name(&self) -> String {
        place(self.variant, &self.source)
    }
}

/// A variant's name, with the release unless that is the usual one.
fn place(variant: Variant, source: &Source) -> String {
    match source.release() {
        BASE => variant.to_string(),
        release => format!("{variant}-{release}"),
    }
}

/// A kernel in the cache.
#[derive(Debug, Clone)]
pub struct Built {
    /// Its folder: bzImage, config, System.map, build.json.
    pub folder: PathBuf,
    /// What it was made of.
    pub info: BuildInfo,
    /// Whether it was there already.
    pub cached: bool,
}

impl Built {
    /// The image that boots.
    pub fn image(&self) -> PathBuf {
        self.folder.join("bzImage")
    }

    /// Words for its command line: what it is, for those who measure in it, and what it needs.
    pub fn words(&self) -> Vec<String> {
        let info = &self.info;
        let mut words = vec![
            format!("cowlab.variant={}", info.variant),
            format!("cowlab.build={}", info.key),
            format!("cowlab.source={}", info.source.version),
        ];
        if info.variant == Variant::Debug {
            // With tables of 5 levels KASAN reports whatever an interrupt in identify_cpu() touches:
            // where its shadow lies follows from the bits that are cleared there ("kasan: Fix
            // false-positive wild-memory-access on x86 under 5-level paging", linux-mm, June 2026).
            words.push("no5lvl".to_owned());
        }
        words
    }

    fn read(folder: PathBuf) -> Option<Built> {
        let info = serde_json::from_slice(&fs::read(folder.join("build.json")).ok()?).ok()?;
        folder.join("bzImage").is_file().then_some(Built { folder, info, cached: true })
    }
}

/// Everything that goes into one kernel.
struct Ingredients {
    source: Source,
    steps: Vec<Step>,
    fragments: Vec<PathBuf>,
    compiler: String,
    key: String,
}

/// Build what is ordered, unless the cache has it.
pub fn build(
    cache: &Cache,
    kernel: &KernelFolder,
    order: &Order<'_>,
    watch: &Watch<'_>,
) -> Result<Built> {
    tools::check_build()?;
    let source = Source::find(cache, order.source.as_ref(), watch.say)?;
    let ingredients = gather(cache, kernel, order, source)?;
    let name = order.variant.name();
    // A tree for each release: one that changed between two builds would be built anew.
    let place = place(order.variant, &ingredients.source);
    let folder = cache.folder("kernel")?.join(format!("{name}-{}", ingredients.key));
    if let Some(built) = Built::read(folder.clone()) {
        return Ok(built);
    }
    let waiting = || watch.say(&format!("another cowlab builds the {name} kernel: waiting"));
    let _lock = cache.lock(&format!("build-{place}"), waiting)?;
    if let Some(built) = Built::read(folder.clone()) {
        return Ok(built);
    }
    let began = Instant::now();
    let work = cache.folder(&format!("work/{place}"))?;
    let is_first = !work.join("objects").is_file();
    cache.check_space(
        if is_first { NEEDED_BYTES } else { NEEDED_BYTES / 4 },
        &format!("building the {name} kernel"),
    )?;
    let source_tree = ingredients.source.tree(cache);
    let overlay = compose(&work, &source_tree, &ingredients.steps, order.prepare)?;
    for offset in &overlay.offsets {
        watch.say(&format!(
            "step {}: {} hunk {} fits {} lines away",
            offset.step, offset.file, offset.hunk, offset.lines
        ));
    }
    watch.check()?;
    watch.say(&format!("building the {name} kernel, {}", ingredients.source.version));
    let tree = tree::prepare(&work, &ingredients.source.id, &source_tree, &overlay)?;
    let log = work.join("build.log");
    let _ = fs::remove_file(&log);
    let local_version = format!("-cowlab-{name}");
    let make = Make { tree: &tree, jobs: order.jobs, log: &log, local_version: &local_version };
    configure(&make, &ingredients.fragments, watch)?;
    let objects = make.run(&["bzImage"], is_first.then_some(TYPICAL_OBJECTS), watch)?;
    fs::write(work.join("objects"), objects.to_string())?;
    let info = BuildInfo {
        variant: order.variant,
        key: ingredients.key,
        source: ingredients.source,
        steps: ingredients.steps.into_iter().map(|step| step.name).collect(),
        offsets: overlay.offsets.clone(),
        compiler: ingredients.compiler,
        config_sha256: hash_of_file(&tree.join(".config"))?,
        built: Timestamp::now(),
        duration_s: began.elapsed().as_secs_f64(),
        objects,
    };
    keep(&tree, &folder, info)
}

fn gather(
    cache: &Cache,
    kernel: &KernelFolder,
    order: &Order<'_>,
    source: Source,
) -> Result<Ingredients> {
    let steps = match order.variant {
        Variant::Plain if order.through.is_some() => {
            bail!("the plain kernel has no steps: --through needs another --variant")
        }
        variant => kernel.steps(variant.series(), order.through.as_deref(), source.release())?,
    };
    let fragments = fragments(kernel, order.variant, source.release(), &steps)?;
    let compiler = tools::version("gcc")?;
    let mut key = Key::default();
    key.text("variant", order.variant.name());
    key.text("source", &source.sha256);
    key.text("compiler", &compiler);
    key.text("linker", &tools::version("ld")?);
    for fragment in &fragments {
        key.file("fragment", fragment)?;
    }
    for step in &steps {
        key.step(step)?;
    }
    if let Some(prepare) = order.prepare {
        key.text("prepare", &prepare.identity());
        prepared(&mut key, &cache.folder("work")?, &source.tree(cache), &steps, prepare)?;
    }
    Ok(Ingredients { source, steps, fragments, compiler, key: key.name() })
}

/// What is asked of the configuration; a later one counts.
fn fragments(
    kernel: &KernelFolder,
    variant: Variant,
    release: &str,
    steps: &[Step],
) -> Result<Vec<PathBuf>> {
    let mut fragments = vec![kernel.file("config")];
    // Options that are called otherwise there.
    let of_release = kernel.file(&format!("config-{release}"));
    fragments.extend(Some(of_release).filter(|path| path.is_file()));
    fragments.extend(steps.iter().filter_map(Step::config));
    let own = kernel.file(&format!("config.{variant}"));
    match variant {
        Variant::Debug | Variant::Kcsan | Variant::Traced if !own.is_file() => {
            bail!("{} is missing", own.display());
        }
        _ if own.is_file() => fragments.push(own),
        _ => {}
    }
    Ok(fragments)
}

/// What `prepare` makes of its files: it can change while all that it is told stays the same.
fn prepared(
    key: &mut Key,
    scratch: &Path,
    source: &Path,
    steps: &[Step],
    prepare: &dyn Prepare,
) -> Result<()> {
    let overlay = compose(scratch, source, steps, Some(prepare))?;
    for path in prepare.files() {
        if let Some(file) = overlay.find(source, &path) {
            key.file(&path.to_string_lossy(), &file)?;
        }
    }
    Ok(())
}

/// The files that differ from the source, in a folder below `scratch`.
pub fn compose(
    scratch: &Path,
    source: &Path,
    steps: &[Step],
    prepare: Option<&dyn Prepare>,
) -> Result<Overlay> {
    let mut overlay = Overlay::new(scratch)?;
    for step in steps {
        overlay.apply(source, step)?;
    }
    if let Some(prepare) = prepare {
        for path in prepare.files() {
            overlay.bring(source, &path)?;
        }
        prepare.run(overlay.folder())?;
        overlay.find_new()?;
    }
    Ok(overlay)
}

/// The tree's `.config`: tinyconfig and the fragments, all of which must take effect.
fn configure(make: &Make<'_>, fragments: &[PathBuf], watch: &Watch<'_>) -> Result<()> {
    make.run(&["tinyconfig"], None, watch)?;
    let path = make.tree.join(".config");
    let cannot = || format!("cannot change {}", path.display());
    let mut text = fs::read_to_string(&path).with_context(cannot)?;
    let mut asked = String::new();
    for fragment in fragments {
        let fragment_text = fs::read_to_string(fragment)
            .with_context(|| format!("cannot read {}", fragment.display()))?;
        asked += &fragment_text;
        asked.push('\n');
    }
    text += &asked;
    fs::write(&path, text).with_context(cannot)?;
    make.run(&["olddefconfig"], None, watch)?;
    let text = fs::read_to_string(&path).with_context(cannot)?;
    let unmet = config::unmet(&config::parse(&asked), &text);
    if !unmet.is_empty() {
        let names: Vec<String> =
            fragments.iter().map(|fragment| fragment.display().to_string()).collect();
        bail!(
            "the kernel's configuration is not what {} ask for: {} (what an option depends on is \
             off, or this source has no such option)",
            names.join(", "),
            unmet.join("; ")
        );
    }
    Ok(())
}

/// Copy what is needed of a built tree into `folder`, which appears when it is whole.
fn keep(tree: &Path, folder: &Path, info: BuildInfo) -> Result<Built> {
    let parent = folder.parent().context("no folder")?;
    let making = tempfile::Builder::new().prefix(".making-").tempdir_in(parent)?;
    for (from, to) in
        [("arch/x86/boot/bzImage", "bzImage"), (".config", "config"), ("System.map", "System.map")]
    {
        fs::copy(tree.join(from), making.path().join(to))
            .with_context(|| format!("cannot keep {}", tree.join(from).display()))?;
    }
    fs::write(making.path().join("build.json"), serde_json::to_vec_pretty(&info)?)?;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::rename(making.keep(), folder)?;
    Ok(Built { folder: folder.to_owned(), info, cached: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a text into a file, and does not say which.
    struct Writes(&'static str);

    impl Prepare for Writes {
        fn identity(&self) -> String {
            "writes".to_owned()
        }

        fn files(&self) -> Vec<PathBuf> {
            vec!["mm/a.c".into()]
        }

        fn run(&self, folder: &Path) -> Result<()> {
            Ok(fs::write(folder.join("mm/a.c"), self.0)?)
        }
    }

    #[test]
    fn a_release_has_trees_of_its_own() {
        let of = |version: &str| {
            let version = version.to_owned();
            let source =
                Source { id: String::new(), version, package: None, sha256: String::new() };
            place(Variant::Plain, &source)
        };
        assert_eq!([of("6.12.117"), of("7.3.4")], ["plain", "plain-7.3"]);
    }

    #[test]
    fn a_release_and_a_variant_add_to_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["config", "config-7.3", "config.debug"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let kernel = KernelFolder::find(Some(folder.path())).unwrap();
        let names = |variant, release| -> Result<Vec<String>> {
            let found = fragments(&kernel, variant, release, &[])?.into_iter();
            let name = |path: PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned());
            Ok(found.filter_map(name).collect())
        };
        assert_eq!(names(Variant::Plain, "6.12").unwrap(), ["config"]);
        assert_eq!(names(Variant::Debug, "7.3").unwrap(), ["config", "config-7.3", "config.debug"]);
        assert!(names(Variant::Kcsan, "7.3").unwrap_err().to_string().contains("is missing"));
    }

    #[test]
    fn what_is_made_of_the_sources_is_in_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("mm")).unwrap();
        fs::write(source.join("mm/a.c"), "int a;\n").unwrap();
        let of = |text| {
            let mut key = Key::default();
            prepared(&mut key, folder.path(), &source, &[], &Writes(text)).unwrap();
            key.name()
        };
        assert_eq!(of("int b;\n"), of("int b;\n"));
        assert_ne!(of("int b;\n"), of("int c;\n"));
    }
}
