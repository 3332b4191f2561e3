// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the whole machine has left for a fork. Limits of users and control groups are in the verdict.

use procfs_core::LoadAverage;
use serde::Serialize;

use crate::limits;
use crate::memory;
use crate::root::{Reader, Root};

cowlab_schema::live! {
    "watch";
    /// What a fork takes from; `None` where there is no such limit, or it cannot be read.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
    pub struct Room {
        /// Memory that the kernel may still promise (only where vm.overcommit_memory is 2)
        commit_bytes: Option<u64> => gauge "cowlab_commit_room" in bytes;
        /// Tasks that the machine may still have: kernel.threads-max, kernel.pid_max
        tasks: Option<u64> => gauge "cowlab_task_room";
    }
}

impl Room {
    /// Reads only files of constant cost.
    pub fn read(root: &Root) -> Room {
        let reader = Reader::new(root);
        let overcommit = memory::probe_overcommit(&reader);
        let memory = memory::probe(&reader).filter(|_| overcommit.memory == Some(2));
        let commit_bytes = memory.and_then(|memory| {
            let reserve = overcommit.admin_reserve_bytes.unwrap_or(0);
            let allowed = memory.commit_limit_bytes?.saturating_sub(reserve);
            Some(allowed.saturating_sub(memory.committed_bytes))
        });
        let load: Option<LoadAverage> = reader.parse("proc/loadavg");
        let tasks = limits::probe_tasks(&reader, load.as_ref());
        let most = tasks.threads_max.into_iter().chain(tasks.pid_max).min();
        let tasks = most.zip(tasks.threads).map(|(most, now)| most.saturating_sub(now));
        Room { commit_bytes, tasks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_limited_in_mode_2_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let own = std::fs::read_to_string("/proc/meminfo").unwrap();
        let lines = own.lines().map(|line| match line.split(':').next() {
            Some("CommitLimit") => "CommitLimit: 1000 kB".to_owned(),
            Some("Committed_AS") => "Committed_AS: 700 kB".to_owned(),
            _ => line.to_owned(),
        });
        write("proc/meminfo", &lines.map(|line| line + "\n").collect::<String>());
        write("proc/loadavg", "0.1 0.2 0.3 1/150 4711\n");
        write("proc/sys/kernel/threads-max", "1000\n");
        write("proc/sys/kernel/pid_max", "200\n");
        write("proc/sys/vm/admin_reserve_kbytes", "100\n");
        let root = Root::new(folder.path());
        for (mode, commit_bytes) in [("0", None), ("1", None), ("2", Some(200 * 1024))] {
            write("proc/sys/vm/overcommit_memory", mode);
            assert_eq!(Room::read(&root), Room { commit_bytes, tasks: Some(50) }, "{mode}");
        }
        assert_eq!(Room::read(&Root::new(folder.path().join("nowhere"))), Room::default());
    }
}
