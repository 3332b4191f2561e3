// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder where sources, trees and built kernels are kept.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cowlab_schema::fmt::bytes;
use tempfile::TempDir;

/// How long a guest's folder is kept.
const KEPT: Duration = Duration::from_secs(7 * 86_400);

/// The cache: everything in it can be made again.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// Held as long as nobody else may change a part of the cache.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Cache {
    /// The cache in `chosen`, else in COWLAB_CACHE, else in the user's cache folder.
    pub fn new(chosen: Option<&Path>) -> Result<Cache> {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = chosen
            .map(Path::to_owned)
            .or_else(|| variable("COWLAB_CACHE"))
            .or_else(|| variable("XDG_CACHE_HOME").map(|home| home.join("cowlab/kernel")))
            .or_else(|| variable("HOME").map(|home| home.join(".cache/cowlab/kernel")))
            .context("no folder for kernels: set COWLAB_CACHE to one, or HOME")?;
        let cannot = || {
            format!("cannot make the cache {} (COWLAB_CACHE=DIR chooses another)", root.display())
        };
        fs::create_dir_all(&root).with_context(cannot)?;
        // A path with a colon, a comma or a space would not survive make and QEMU.
        let root = root.canonicalize().with_context(cannot)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@~".contains(&byte);
        if !root.as_os_str().as_encoded_bytes().iter().copied().all(is_plain) {
            bail!(
                "{}: make takes no path with spaces or the like: set COWLAB_CACHE=DIR",
                root.display()
            );
        }
        Ok(Cache { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder `name` of the cache, made if need be.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// A folder for one guest, which goes with what is returned. Folders that were kept for their logs, or whose cowlab
    /// was killed, go after a week: no guest runs that long.
    pub fn guest_folder(&self, prefix: &str) -> Result<TempDir> {
        let boots = self.folder("boot")?;
        for entry in fs::read_dir(&boots).into_iter().flatten().flatten() {
            let made = entry.metadata().and_then(|about| about.modified());
            if made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > KEPT)) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(&boots)
            .with_context(|| format!("cannot make a folder in {}", boots.display()))
    }

    /// Wait until nobody else works on `name`; `waiting` is called if that takes time.
    pub fn lock(&self, name: &str, waiting: impl FnOnce()) -> Result<Lock> {
        let path = self.folder("locks")?.join(name);
        let cannot = || format!("cannot lock {}", path.display());
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock().with_context(cannot)?;
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
        Ok(Lock { _file: file })
    }

    /// Refuse to begin what will not fit.
    pub fn check_space(&self, needed_bytes: u64, what: &str) -> Result<()> {
        let free_bytes = free_bytes(&self.root)?;
        if free_bytes < needed_bytes {
            bail!(
                "{what} needs {} in {}, where {} are free: free some, or choose another place with \
                 COWLAB_CACHE=DIR",
                bytes(needed_bytes),
                self.root.display(),
                bytes(free_bytes)
            );
        }
        Ok(())
    }
}

/// What this user may still write there.
fn free_bytes(folder: &Path) -> Result<u64> {
    let about = rustix::fs::statvfs(folder)
        .with_context(|| format!("cannot ask how much of {} is free", folder.display()))?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path())).unwrap();
        cache.check_space(1, "a file").unwrap();
        let error = cache.check_space(u64::MAX, "a kernel").unwrap_err().to_string();
        assert!(error.starts_with("a kernel needs 16,800,000 TiB in /"), "{error}");
        assert!(error.contains("COWLAB_CACHE=DIR"), "{error}");
    }

    #[test]
    fn what_a_guest_left_goes_after_a_week() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path())).unwrap();
        let [old, new] = ["boot-old", "boot-new"].map(|name| folder.path().join("boot").join(name));
        for kept in [&old, &new] {
            fs::create_dir_all(kept).unwrap();
            fs::write(kept.join("console.log"), "panic").unwrap();
        }
        let eight_days = SystemTime::now() - KEPT - Duration::from_secs(86_400);
        File::open(&old).unwrap().set_modified(eight_days).unwrap();
        let own = cache.guest_folder("boot-").unwrap().path().to_owned();
        assert!(!old.exists() && new.exists() && !own.exists());
    }

    #[test]
    fn a_path_that_make_would_split_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Cache::new(Some(&folder.path().join("a b"))).unwrap_err().to_string();
        assert!(error.contains("COWLAB_CACHE=DIR"), "{error}");
    }

    #[test]
    fn a_lock_excludes_others() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path())).unwrap();
        let first = cache.lock("plain", || panic!("nobody holds it")).unwrap();
        let path = folder.path().join("locks/plain");
        assert!(matches!(File::open(&path).unwrap().try_lock(), Err(TryLockError::WouldBlock)));
        drop(first);
        File::open(&path).unwrap().try_lock().unwrap();
    }
}
