// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are installed with the program: PREFIX/share/cowlab beside PREFIX/bin.

use std::path::{Path, PathBuf};

/// `name` in share/cowlab, if it is there.
pub fn installed(name: &str) -> Option<PathBuf> {
    beside(&std::env::current_exe().ok()?, name)
}

fn beside(program: &Path, name: &str) -> Option<PathBuf> {
    let path = program.parent()?.parent()?.join("share/cowlab").join(name);
    path.exists().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_beside_bin() {
        let prefix = tempfile::tempdir().unwrap();
        let file = prefix.path().join("share/cowlab/kernel/config");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        let program = prefix.path().join("bin/cowlab");
        assert_eq!(beside(&program, "kernel/config"), Some(file));
        assert_eq!(beside(&program, "kernel/configs"), None);
    }
}
