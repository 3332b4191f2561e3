// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine with one mutated file of /proc or /sys.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread_local;

use cowlab_machine::fit::{Need, check};
use cowlab_machine::{Facts, ProcessFacts, Root, capability, verdict};
use tempfile::TempDir;

struct Tree {
    folder: TempDir,
    files: Vec<(PathBuf, Vec<u8>)>,
}

const NEED: Need =
    Need { heap_bytes: 1 << 30, written_bytes: 1 << 30, children: 1, page_size_bytes: 4096 };

thread_local! {
    static TREE: Tree = Tree::new();
}

impl Tree {
    fn new() -> Tree {
        // A fuzzer is started in the repository, a test in its crate.
        let crates = if Path::new("crates").exists() { "crates" } else { ".." };
        let saved = Path::new(crates).join("machine/tests/fixtures/bare-v2");
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut files = Vec::new();
        copy(&saved, folder.path(), &mut files);
        files.sort();
        Tree { folder, files }
    }
}

fn copy(from: &Path, to: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("the tree is there").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to, files);
        } else {
            let bytes = fs::read(from).expect("the tree can be read");
            fs::write(&to, &bytes).expect("a file can be written");
            files.push((to, bytes));
        }
    }
}

/// The first byte says which file the others are.
pub(crate) fn machine(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    TREE.with(|tree| {
        let (path, before) = &tree.files[usize::from(*which) % tree.files.len()];
        fs::write(path, bytes).expect("a file can be written");
        let root = Root::new(tree.folder.path());
        let facts = Facts::probe(&root);
        capability::list(&facts);
        drop(check(&facts, &NEED));
        for pid in [1234, 50] {
            if let Ok(process) = ProcessFacts::probe(&root, pid) {
                verdict::fork_of(&facts, &process, None, None);
            }
        }
        fs::write(path, before).expect("a file can be written");
    });
}
