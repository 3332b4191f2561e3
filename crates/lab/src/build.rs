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
use crate::patches::{Changes, KernelFolder, Series, name_of};
use crate::source::{BASE, Source, SourceChoice};
use crate::tools;
use crate::traced::Traced;
use crate::tree;
use crate::watch::Watch;

/// What a variant takes beside its source's files, when it is built for the first time.
const NEEDED_BYTES: u64 = 1 << 30;

choices! {
    /// Which kernel; its release ends with its name.
    Variant, "variant", {
        /// the source as it is
        Plain = "plain",
        /// with the patches that Linux itself could take
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

pub struct Order<'a> {
    pub variant: Variant,
    /// Of which source; what was fetched last if not given.
    pub source: Option<SourceChoice>,
    /// A patch of which the traced kernel's sources have this one more.
    pub change: Option<&'a Path>,
}

/// What a built kernel was made of: `build.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BuildInfo {
    pub variant: Variant,
    /// The hash of all that went in.
    pub key: String,
    pub source: Source,
    pub patches: Vec<String>,
    /// First line of `gcc --version`.
    pub compiler: String,
    /// SHA-256 of its `.config`.
    pub config_sha256: String,
    pub built: Timestamp,
    pub duration_s: f64,
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

#[derive(Debug, Clone)]
pub struct Built {
    /// Its folder: bzImage, config, System.map, build.json.
    pub folder: PathBuf,
    pub info: BuildInfo,
    /// Whether it was there already.
    pub cached: bool,
}

impl Built {
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

/// Build what is ordered, unless the cache has it.
pub fn build(
    cache: &Cache,
    kernel: &KernelFolder,
    order: &Order<'_>,
    watch: &Watch<'_>,
) -> Result<Built> {
    tools::check_build()?;
    let Order { variant, .. } = *order;
    let name = variant.name();
    let source = Source::find(cache, order.source.as_ref(), watch.say)?;
    let source_tree = source.tree(cache);
    let patches = kernel.patches(variant.series(), source.release())?;
    let mut changes = changed(cache, &source_tree, &patches, watch)?;
    if variant == Variant::Traced {
        if let Some(change) = order.change {
            changes.apply(&source_tree, change, watch.say)?;
        }
        Traced::read(kernel)?.instrument(&source_tree, &mut changes)?;
    }
    let fragments = fragments(kernel, variant, source.release())?;
    let compiler = tools::version("gcc")?;
    let mut key = Key::default();
    key.text("variant", name);
    key.text("source", &source.sha256);
    key.text("compiler", &compiler);
    key.text("linker", &tools::version("ld")?);
    for fragment in &fragments {
        key.file("fragment", fragment)?;
    }
    changes.identify(&source_tree, &mut key)?;
    let key = key.name();
    let folder = cache.folder("kernel")?.join(format!("{name}-{key}"));
    if let Some(built) = Built::read(folder.clone()) {
        return Ok(built);
    }
    // A tree for each release: one that changed between two builds would be built anew.
    let place = place(variant, &source);
    let waiting = || watch.say(&format!("another cowlab builds the {name} kernel: waiting"));
    let _lock = cache.lock(&format!("build-{place}"), waiting)?;
    if let Some(built) = Built::read(folder.clone()) {
        return Ok(built);
    }
    let began = Instant::now();
    let work = cache.folder(&format!("work/{place}"))?;
    let is_first = !work.join("tree/vmlinux").is_file();
    cache.check_space(
        if is_first { NEEDED_BYTES } else { NEEDED_BYTES / 4 },
        &format!("building the {name} kernel"),
    )?;
    let log = work.join("build.log");
    watch.say(&format!("building the {name} kernel, {} ({})", source.version, log.display()));
    let tree = tree::prepare(&work, &source.id, &source_tree, &changes)?;
    let local_version = format!("-cowlab-{name}");
    let make = Make { tree: &tree, log: &log, local_version: &local_version };
    let _ = fs::remove_file(&log);
    configure(&make, &fragments, watch)?;
    make.run(&["bzImage"], watch)?;
    let info = BuildInfo {
        variant,
        key,
        source,
        patches: patches.iter().map(|patch| name_of(patch)).collect(),
        compiler,
        config_sha256: hash_of_file(&tree.join(".config"))?,
        built: Timestamp::now(),
        duration_s: began.elapsed().as_secs_f64(),
    };
    keep(&tree, &folder, info)
}

/// What `patches` make of the source at `tree`.
pub fn changed(
    cache: &Cache,
    tree: &Path,
    patches: &[PathBuf],
    watch: &Watch<'_>,
) -> Result<Changes> {
    let mut changes = Changes::new(&cache.folder("work")?)?;
    for patch in patches {
        changes.apply(tree, patch, watch.say)?;
    }
    watch.check()?;
    Ok(changes)
}

/// What is asked of the configuration; a later one counts.
fn fragments(kernel: &KernelFolder, variant: Variant, release: &str) -> Result<Vec<PathBuf>> {
    let own = kernel.file(&format!("config.{variant}"));
    if matches!(variant, Variant::Debug | Variant::Kcsan | Variant::Traced) && !own.is_file() {
        bail!("{} is missing", own.display());
    }
    // Options that are called otherwise in that release.
    let mut fragments = vec![kernel.file("config"), kernel.file(&format!("config-{release}"))];
    fragments.extend(variant.series().iter().map(|one| kernel.file(&format!("{one}/config"))));
    fragments.push(own);
    fragments.retain(|path| path.is_file());
    Ok(fragments)
}

/// The tree's `.config`: tinyconfig and the fragments, all of which must take effect.
fn configure(make: &Make<'_>, fragments: &[PathBuf], watch: &Watch<'_>) -> Result<()> {
    make.run(&["tinyconfig"], watch)?;
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
    make.run(&["olddefconfig"], watch)?;
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
        fs::create_dir(folder.path().join("research")).unwrap();
        for name in ["config", "config-7.3", "config.debug", "research/config"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let kernel = KernelFolder::find(Some(folder.path())).unwrap();
        let names = |variant, release| -> Result<Vec<String>> {
            let found = fragments(&kernel, variant, release)?.into_iter();
            let name = |path: PathBuf| {
                let path = path.strip_prefix(kernel.path()).unwrap().to_owned();
                path.to_string_lossy().into_owned()
            };
            Ok(found.map(name).collect())
        };
        assert_eq!(names(Variant::Plain, "6.12").unwrap(), ["config"]);
        assert_eq!(names(Variant::Patched, "6.12").unwrap(), ["config", "research/config"]);
        let debug = ["config", "config-7.3", "research/config", "config.debug"];
        assert_eq!(names(Variant::Debug, "7.3").unwrap(), debug);
        assert!(names(Variant::Kcsan, "7.3").unwrap_err().to_string().contains("is missing"));
    }
}
