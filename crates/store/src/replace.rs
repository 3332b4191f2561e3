// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file that is whole at any moment.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// A file with new contents, or as it was. What is no plain file is written to and never replaced.
pub fn replace(file: &Path, contents: &[u8]) -> io::Result<()> {
    if fs::metadata(file).is_ok_and(|known| !known.is_file()) {
        return fs::write(file, contents);
    }
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".unfinished");
    // Of one that was killed in the middle, perhaps as another user.
    let _ = fs::remove_file(&unfinished);
    let done = fs::File::create_new(&unfinished)
        .and_then(|mut opened| opened.write_all(contents))
        .and_then(|()| fs::rename(&unfinished, file));
    if done.is_err() {
        // Where that fails too, there is none.
        let _ = fs::remove_file(&unfinished);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tend.prom");
        replace(&file, b"first").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(replace(&file, b"new").is_err(), "a file takes a folder's place");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::remove_dir(&file).unwrap();
        // A link with that name is not followed.
        let other = folder.path().join("other");
        fs::write(&other, "old").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("tend.prom.unfinished")).unwrap();
        replace(&file, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_to_string(&other).unwrap(), "old");
        assert!(replace(Path::new("/nonexistent/x"), b"").is_err());
        // Nor is what another program reads from, as /dev/stdout.
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        replace(&pipe, b"new").unwrap();
        drop(reader);
        assert!(!fs::metadata(&pipe).unwrap().is_file());
    }
}
