// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A series as mails: commits on top of the source, formatted by git, looked at by
//! checkpatch, and applied again to see that they apply.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::cache::Cache;
use crate::cover::Cover;
use crate::overlay::Overlay;
use crate::series::Step;
use crate::source::{Source, run};
use crate::tools;

/// What the source's repository takes.
const REPOSITORY_BYTES: u64 = 1 << 30;

/// What a checked-out source takes.
const CHECK_OUT_BYTES: u64 = 2 << 30;

/// Who writes the mails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Their name.
    pub name: String,
    /// Their address.
    pub mail: String,
}

impl Author {
    /// `Name <mail@address>`
    pub fn parse(text: &str) -> Result<Author> {
        let parts = text.trim().strip_suffix('>').and_then(|text| text.split_once('<'));
        let found = parts.map(|(name, mail)| (name.trim(), mail.trim()));
        match found.filter(|(name, mail)| !name.is_empty() && mail.contains('@')) {
            Some((name, mail)) => Ok(Author { name: name.to_owned(), mail: mail.to_owned() }),
            None => bail!("'{text}' is no author: give 'Name <mail@address>' (--author)"),
        }
    }

    /// Git's own setting in the folder `here`.
    pub fn of_git(here: &Path) -> Result<Author> {
        let value = |name: &str| {
            let said = run(Command::new("git").arg("-C").arg(here).args(["config", name]));
            said.map(|said| said.trim().to_owned())
                .context("git knows no author here: set user.name and user.email, or give --author")
        };
        Ok(Author { name: value("user.name")?, mail: value("user.email")? })
    }
}

/// A series as commits.
#[derive(Debug)]
pub struct Commits {
    repository: PathBuf,
    base: String,
    tip: String,
}

/// What checkpatch says about one mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The mail's file name.
    pub mail: String,
    /// Errors.
    pub errors: u32,
    /// Warnings, of --strict as well.
    pub warnings: u32,
    /// Each of them, as checkpatch prints it.
    pub messages: Vec<String>,
}

/// Make commits of the steps `below`, which are not mailed, and of `steps` on top of `source`.
pub fn commit(
    cache: &Cache,
    source: &Source,
    below: &[Step],
    steps: &[Step],
    author: &Author,
    say: &dyn Fn(&str),
) -> Result<Commits> {
    if steps.is_empty() {
        bail!("the series has no steps");
    }
    let tree = source.tree(cache);
    let (repository, linux) = repository(cache, source, say)?;
    let git = Git { repository: &repository, author: Some(author) };
    let scratch = tempfile::tempdir_in(cache.root()).context("cannot write to the cache")?;
    let mut overlay = Overlay::new(scratch.path())?;
    let index = scratch.path().join("index");
    run(git.command(&["read-tree", &linux]).env("GIT_INDEX_FILE", &index))?;
    let (mut base, mut tip) = (linux.clone(), linux);
    for (number, step) in below.iter().chain(steps).enumerate() {
        overlay.apply(&tree, step)?;
        let mut update = git.command(&["update-index", "--add", "--remove", "--"]);
        update.env("GIT_WORK_TREE", overlay.folder()).current_dir(overlay.folder());
        run(update.args(overlay.paths()).env("GIT_INDEX_FILE", &index))?;
        let content = run(git.command(&["write-tree"]).env("GIT_INDEX_FILE", &index))?;
        let message = scratch.path().join("message");
        fs::write(&message, step.message()?)?;
        let mut make = git.command(&["commit-tree", "-p", &tip, "-F"]);
        tip = run(make.arg(&message).arg(content.trim()))?.trim().to_owned();
        if number < below.len() {
            base.clone_from(&tip);
        }
    }
    Ok(Commits { repository, base, tip })
}

/// The repository with one commit, the source. Made once for each source.
fn repository(cache: &Cache, source: &Source, say: &dyn Fn(&str)) -> Result<(PathBuf, String)> {
    let folder = cache.folder("series")?;
    let waiting = || say("another cowlab makes a repository: waiting");
    let _lock = cache.lock("series", waiting)?;
    let repository = folder.join(format!("{}.git", source.id));
    let base = repository.join("cowlab-base");
    if let Ok(base) = fs::read_to_string(&base) {
        return Ok((repository, base));
    }
    cache.check_space(REPOSITORY_BYTES, "a repository of the source")?;
    say("making a repository of the source (once)");
    if repository.exists() {
        fs::remove_dir_all(&repository)?;
    }
    run(Command::new("git").args(["init", "--quiet", "--bare"]).arg(&repository))?;
    let author = Author { name: "Debian".into(), mail: "debian-kernel@lists.debian.org".into() };
    let git = Git { repository: &repository, author: Some(&author) };
    let mut add = git.command(&["add", "--all", "--force", "."]);
    // Slow compression would save nothing that is kept.
    add.env("GIT_WORK_TREE", source.tree(cache)).current_dir(source.tree(cache));
    run(&mut add)?;
    let content = run(&mut git.command(&["write-tree"]))?;
    let message = format!("Linux {}", source.version);
    let made = run(&mut git.command(&["commit-tree", "-m", &message, content.trim()]))?;
    let made = made.trim().to_owned();
    fs::write(&base, &made)?;
    Ok((repository, made))
}

impl Commits {
    /// Write the mails into `folder`; their paths, the cover letter first.
    pub fn write(
        &self,
        folder: &Path,
        reroll: u32,
        cover: &Cover,
        author: &Author,
    ) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // Git is run elsewhere.
        let folder = &folder.canonicalize()?;
        let there = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.file_name()));
        if there.into_iter().any(|name| name.to_string_lossy().ends_with(".patch")) {
            bail!("{} holds mails already: choose another folder", folder.display());
        }
        let git = Git { repository: &self.repository, author: Some(author) };
        let mut format = git.command(&["format-patch", "--cover-letter", "--signoff", "--quiet"]);
        if reroll > 1 {
            format.args(["-v", &reroll.to_string()]);
        }
        run(format
            .args(["--no-renames", "-o"])
            .arg(folder)
            .arg(format!("{}..{}", self.base, self.tip)))?;
        let mut mails: Vec<PathBuf> = fs::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "patch"))
            .collect();
        mails.sort();
        let letter = mails.first().context("git wrote no mails")?;
        let text = fs::read_to_string(letter)?;
        let text = text.replacen("*** SUBJECT HERE ***", &cover.subject, 1).replacen(
            "*** BLURB HERE ***",
            cover.body.trim_end(),
            1,
        );
        fs::write(letter, text)?;
        Ok(mails)
    }

    /// Apply `mails` with git am to what is below them; they must give what they were made from.
    pub fn apply_again(&self, cache: &Cache, mails: &[PathBuf], author: &Author) -> Result<()> {
        cache.check_space(CHECK_OUT_BYTES, "a fresh source")?;
        let folder = tempfile::Builder::new().prefix("am-").tempdir_in(cache.root())?;
        let fresh = folder.path().join("linux");
        let git = Git { repository: &self.repository, author: Some(author) };
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet", "--shared", "--no-checkout"]);
        run(clone.arg(&self.repository).arg(&fresh))?;
        let at = |arguments: &[&str]| {
            let mut command = git.command(arguments);
            command.env("GIT_DIR", fresh.join(".git")).env("GIT_WORK_TREE", &fresh);
            command.current_dir(&fresh);
            command
        };
        run(&mut at(&["checkout", "--quiet", "--detach", &self.base]))?;
        let mut am = at(&["am", "--quiet", "--no-3way"]);
        am.env_remove("GIT_WORK_TREE").env_remove("GIT_DIR").args(&mails[1..]);
        run(&mut am).context("git am does not apply the series")?;
        if run(&mut at(&["diff", "--quiet", "HEAD", &self.tip])).is_err() {
            bail!("the mails give another tree than the steps they were made from");
        }
        Ok(())
    }
}

/// Run the source's own checkpatch over the mails.
pub fn checkpatch(source_tree: &Path, mails: &[PathBuf]) -> Result<Vec<Checked>> {
    let source_tree = std::path::absolute(source_tree)?;
    let script = source_tree.join("scripts/checkpatch.pl");
    // It keeps a list of names in the folder that it runs in.
    let folder = tempfile::tempdir().context("cannot make a folder for checkpatch")?;
    let mut all = Vec::new();
    for mail in mails {
        let output = Command::new("perl")
            .arg(&script)
            .args(["--strict", "--terse", "--no-color", "--root"])
            .arg(&source_tree)
            .arg(std::path::absolute(mail)?)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run perl: {}", tools::HELP))?;
        let said = match output.status.success() && output.stdout.is_empty() {
            // With --terse it has no total where there is nothing to say.
            true => "total: 0 errors, 0 warnings".into(),
            false => String::from_utf8_lossy(&output.stdout),
        };
        let name = mail.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let checked = read_checkpatch(&name, &said).with_context(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("checkpatch said nothing about {name}: {}", said.trim())
        })?;
        all.push(checked);
    }
    Ok(all)
}

/// The messages and the line `total: 0 errors, 1 warnings, 2 checks, 120 lines checked`.
fn read_checkpatch(mail: &str, said: &str) -> Result<Checked> {
    let total = said.lines().find(|line| line.starts_with("total: ")).context("no total")?;
    let count = |what: &str| -> Result<u32> {
        let words: Vec<&str> = total.split_whitespace().collect();
        let at = words.iter().position(|word| word.trim_end_matches(',') == what);
        at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).context("no count")
    };
    let messages = said.lines().filter(|line| *line != total && !line.trim().is_empty());
    Ok(Checked {
        mail: mail.to_owned(),
        errors: count("errors")?,
        warnings: count("warnings")? + count("checks").unwrap_or(0),
        // Each begins with the mail's path.
        messages: messages
            .map(|line| line.find(mail).map_or(line, |at| &line[at..]).to_owned())
            .collect(),
    })
}

/// Git in one repository, with nothing of the user's own settings.
struct Git<'a> {
    repository: &'a Path,
    author: Option<&'a Author>,
}

impl Git<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.env("GIT_DIR", self.repository).env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_CONFIG_NOSYSTEM", "1").args(["-c", "core.compression=1"]);
        command.args(["-c", "gc.auto=0", "-c", "core.autocrlf=false"]).args(arguments);
        if let Some(Author { name, mail }) = self.author {
            for who in ["AUTHOR", "COMMITTER"] {
                command.env(format!("GIT_{who}_NAME"), name);
                command.env(format!("GIT_{who}_EMAIL"), mail);
            }
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::series::{KernelFolder, Series};
    use crate::source::SourceChoice;

    /// A cache with a small source, and a series that adds, changes and deletes.
    fn fake() -> (tempfile::TempDir, Cache, Source, Vec<Step>) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("linux/Makefile", "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n");
        write("linux/mm/memory.c", "one\ntwo\n");
        write("linux/mm/old.c", "old\n");
        write("kernel/config", "");
        write("kernel/research/0001-a/MESSAGE", "mm: add a file\n\nIt is new.\n");
        write("kernel/research/0001-a/tree/mm/cow.c", "cow\n");
        write("kernel/research/0002-b/MESSAGE", "mm: call it\n\nAnd change it.\n");
        write(
            "kernel/research/0002-b/hooks.patch",
            "--- a/mm/memory.c\n+++ b/mm/memory.c\n@@ -1,2 +1,3 @@\n one\n+hook\n two\n\
             --- a/mm/cow.c\n+++ b/mm/cow.c\n@@ -1 +1 @@\n-cow\n+calf\n\
             --- a/mm/old.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n",
        );
        write("kernel/research/0003-c/MESSAGE", "mm: add a script\n\nIt is run.\n");
        write("kernel/research/0003-c/tree/run.sh", "#!/bin/sh\n");
        let script = folder.path().join("kernel/research/0003-c/tree/run.sh");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        let tarball = folder.path().join("linux.tar.gz");
        run(Command::new("tar")
            .arg("-czf")
            .arg(&tarball)
            .arg("-C")
            .arg(folder.path())
            .arg("linux"))
        .unwrap();
        let cache = Cache::new(Some(&folder.path().join("cache"))).unwrap();
        let source = Source::find(&cache, Some(&SourceChoice::Tarball(tarball)), &|_| {}).unwrap();
        let kernel = KernelFolder::find(Some(&folder.path().join("kernel"))).unwrap();
        let steps = kernel.steps(Series::ALL, None, "6.12").unwrap();
        (folder, cache, source, steps)
    }

    fn author() -> Author {
        Author::parse("A Person <a@example.org>").unwrap()
    }

    #[test]
    fn mails_are_written_and_apply_again() {
        let (folder, cache, source, steps) = fake();
        let series = commit(&cache, &source, &[], &steps, &author(), &|_| {}).unwrap();
        let cover = Cover { subject: "mm: two steps".into(), body: "Why.\n".into() };
        let first = series.write(&folder.path().join("first"), 1, &cover, &author()).unwrap();
        assert!(first[1].ends_with("0001-mm-add-a-file.patch"), "{first:?}");
        let to = folder.path().join("mails");
        let mails = series.write(&to, 2, &cover, &author()).unwrap();
        let names: Vec<_> =
            mails.iter().map(|mail| mail.file_name().unwrap().to_string_lossy()).collect();
        assert_eq!(
            names,
            [
                "v2-0000-cover-letter.patch",
                "v2-0001-mm-add-a-file.patch",
                "v2-0002-mm-call-it.patch",
                "v2-0003-mm-add-a-script.patch"
            ]
        );
        let letter = fs::read_to_string(&mails[0]).unwrap();
        assert!(letter.contains("Subject: [PATCH v2 0/3] mm: two steps\n\nWhy.\n"), "{letter}");
        let last = fs::read_to_string(&mails[2]).unwrap();
        assert!(last.contains("Signed-off-by: A Person <a@example.org>"), "{last}");
        assert!(last.contains("deleted file mode 100644"), "{last}");
        assert!(fs::read_to_string(&mails[3]).unwrap().contains("new file mode 100755"));
        series.apply_again(&cache, &mails, &author()).unwrap();
        let error = series.write(&to, 2, &cover, &author()).unwrap_err().to_string();
        assert!(error.contains("holds mails already"), "{error}");

        fs::write(&mails[2], last.replace("+calf", "+bull")).unwrap();
        let error = series.apply_again(&cache, &mails, &author()).unwrap_err().to_string();
        assert!(error.contains("another tree"), "{error}");
        fs::write(&mails[2], last.replace("-cow", "-dog")).unwrap();
        let error = series.apply_again(&cache, &mails, &author()).unwrap_err().to_string();
        assert!(error.contains("git am does not apply"), "{error}");
    }

    #[test]
    fn steps_below_are_there_and_not_mailed() {
        let (folder, cache, source, steps) = fake();
        let cover = Cover { subject: "mm: on top".into(), body: "Why.\n".into() };
        let (below, own) = steps.split_at(1);
        let commits = commit(&cache, &source, below, own, &author(), &|_| {}).unwrap();
        let to = folder.path().join("mails");
        let mails = commits.write(&to, 1, &cover, &author()).unwrap();
        assert_eq!(mails.len(), 3);
        // It changes a file that is new below it.
        assert!(mails[1].ends_with("0001-mm-call-it.patch"), "{mails:?}");
        commits.apply_again(&cache, &mails, &author()).unwrap();
        let error = commit(&cache, &source, below, &[], &author(), &|_| {}).unwrap_err();
        assert!(error.to_string().contains("no steps"), "{error}");
    }

    #[test]
    fn what_checkpatch_says() {
        let said = "/x/v1-0001-a.patch:14: ERROR: trailing whitespace\n\
                    /x/v1-0001-a.patch:20: CHECK: Please don't use a/b\n\
                    total: 1 errors, 2 warnings, 1 checks, 30 lines checked\n";
        let checked = read_checkpatch("v1-0001-a.patch", said).unwrap();
        assert_eq!((checked.errors, checked.warnings), (1, 3));
        assert_eq!(checked.messages[0], "v1-0001-a.patch:14: ERROR: trailing whitespace");
        assert_eq!(checked.messages[1], "v1-0001-a.patch:20: CHECK: Please don't use a/b");
        assert!(read_checkpatch("x", "").is_err());
    }

    #[test]
    fn a_clean_mail_has_no_errors() {
        let folder = tempfile::tempdir().unwrap();
        let check = |script: &str| {
            fs::create_dir_all(folder.path().join("scripts")).unwrap();
            fs::write(folder.path().join("scripts/checkpatch.pl"), script).unwrap();
            checkpatch(folder.path(), &[folder.path().join("0001-a.patch")])
        };
        let checked = check("exit 0").unwrap().remove(0);
        assert_eq!((checked.errors, checked.warnings, checked.messages.len()), (0, 0, 0));
        assert!(check("exit 2").unwrap_err().to_string().contains("said nothing"));
    }

    #[test]
    fn an_author_needs_a_name_and_an_address() {
        assert_eq!(author(), Author { name: "A Person".into(), mail: "a@example.org".into() });
        for text in ["A Person", "<a@example.org>", "A <nowhere>", ""] {
            let error = Author::parse(text).unwrap_err().to_string();
            assert!(error.contains("--author"), "{error}");
        }
    }
}
