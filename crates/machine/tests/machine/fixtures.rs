// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts of saved machines.

use std::path::Path;

use cowlab_machine::cgroup::TaskBound;
use cowlab_machine::limits::{CAP_SYS_ADMIN, ResourceLimits};
use cowlab_machine::{Facts, Root, capability, fit, usable};

fn fixture(name: &str) -> Facts {
    Facts::probe(&Root::new(Path::new("tests/fixtures").join(name)))
}

#[test]
fn bare_metal_with_cgroup_v2() {
    let facts = fixture("bare-v2");
    assert_eq!(facts.problems, Vec::<String>::new());
    assert_eq!(facts.cpu.allowed, [0, 1, 2, 3]);
    assert_eq!((facts.cpu.virtual_machine, &facts.cpu.hypervisor), (Some(false), &None));
    assert_eq!(facts.memory.as_ref().unwrap().available_bytes, Some(60_000_000 * 1024));
    let open_files = Some(1024);
    assert_eq!(facts.limits, Some(ResourceLimits { open_files, ..Default::default() }));
    assert!(facts.credentials.as_ref().unwrap().has(CAP_SYS_ADMIN));
    assert_eq!(facts.tasks.threads, Some(412));
    // Each level's limits, own group first; the tightest is the one above, its cache given back.
    let high = facts.cgroup.tightest_high().unwrap();
    assert_eq!((high.limit_bytes, high.free_bytes()), (8 << 30, 7 << 30));
    let max = facts.cgroup.tightest_max().unwrap();
    assert_eq!(max.file, "/sys/fs/cgroup/system.slice/memory.max");
    assert_eq!(max.free_bytes(), 13 << 30);
    let file = "/sys/fs/cgroup/system.slice/lab.service/pids.max".to_owned();
    assert_eq!(
        facts.cgroup.tasks,
        [TaskBound { file, limit: 512, current: Some(12), refused: None }]
    );
    assert!(facts.smaps_rollup && !facts.page_reporting);
    assert_eq!(facts.ksm, Some(0));
    assert!(usable::page_size(&facts, 2 << 20).is_ok());
    assert!(usable::page_size(&facts, 64 << 10).unwrap_err().contains("--set-mthp"));

    let kept = facts.environment();
    assert_eq!((kept.host.as_str(), kept.kernel.as_str()), ("rack7", "6.12.9"));
    assert_eq!((kept.cpus, kept.page_size_bytes, kept.load_average), (4, 4096, Some(0.13)));
    assert_eq!(kept.thp.as_deref(), Some("madvise"));
    assert_eq!(kept.mthp[&65536], "never");
    assert_eq!(kept.mitigations["spectre_v2"], "Mitigation: Retpolines");
}

#[test]
fn container_with_a_cgroup_v1_limit() {
    let facts = fixture("container-v1");
    assert_eq!(facts.problems, Vec::<String>::new());
    let max = facts.cgroup.tightest_max().unwrap();
    assert_eq!(max.file, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
    assert_eq!(max.free_bytes(), 3 << 29);
    assert_eq!(facts.cgroup.tightest_tasks().unwrap().limit, 64);
    assert_eq!(facts.cpu.hypervisor.as_deref(), Some("QEMU"));
    assert!(facts.memory_may_be_taken_back());
    assert_eq!(facts.thp.as_ref().unwrap().disabled_for_self, Some(true));
    let need = fit::Need {
        heap_bytes: 1 << 30,
        written_bytes: 1 << 30,
        children: 1,
        page_size_bytes: 4096,
    };
    let refused = fit::check(&facts, &need).unwrap_err();
    assert_eq!(refused.limit, fit::Limit::Cgroup(max.file.clone()));
    for (name, needs) in [
        ("TLB flush of another thread", "taskset"),
        ("THP of 2 MiB", "PR_SET_THP_DISABLE"),
        ("changing a huge-page size for a run", "root"),
        ("memory that stays with this machine", "hypervisor"),
        ("processes of other users", "CAP_SYS_PTRACE"),
    ] {
        let all = capability::list(&facts);
        let one = all.iter().find(|one| one.name == name).unwrap();
        assert!(!one.available && one.needs.as_ref().unwrap().contains(needs), "{one:?}");
    }
}

#[test]
fn kernel_without_huge_pages() {
    let facts = fixture("no-thp");
    assert_eq!(facts.problems, Vec::<String>::new());
    assert_eq!((&facts.thp, &facts.ksm, facts.smaps_rollup), (&None, &None, false));
    assert_eq!((facts.architecture.as_str(), &facts.cpu.model), ("aarch64", &None));
    assert_eq!(facts.cpu.virtual_machine, None);
    assert_eq!(facts.memory.as_ref().unwrap().available_bytes, None);
    assert_eq!((facts.cgroup.tightest_max(), facts.cgroup.tightest_tasks()), (None, None));
    let kept = facts.environment();
    assert_eq!((kept.thp, kept.thp_size_bytes, kept.mthp.len()), (None, None, 0));
    let all = capability::list(&facts);
    let pages = all.iter().find(|one| one.name == "transparent huge pages").unwrap();
    assert!(pages.needs.as_ref().unwrap().contains("CONFIG_TRANSPARENT_HUGEPAGE"));
}

#[test]
fn cut_and_empty_files_are_absent_and_named() {
    let facts = fixture("cut");
    assert_eq!((&facts.memory, &facts.limits, &facts.credentials), (&None, &None, &None));
    assert_eq!((facts.overcommit.memory, facts.tasks.threads_max), (None, None));
    for file in [
        "proc/meminfo: cut short",
        "proc/cpuinfo: cut short",
        "proc/loadavg: cut short",
        "proc/self/limits: cut short",
        "proc/self/status: not understood",
        "proc/sys/vm/overcommit_memory: is empty",
        "proc/sys/kernel/threads-max: \"many\" is not a number",
    ] {
        assert!(
            facts.problems.iter().any(|one| one.contains(file)),
            "{file}: {:?}",
            facts.problems
        );
    }
    assert!(facts.problems.iter().all(|one| !one.contains("procfs")), "{:?}", facts.problems);
}

#[test]
fn an_empty_tree_is_a_machine_of_which_nothing_is_known() {
    let empty = tempfile::tempdir().unwrap();
    let facts = Facts::probe(&Root::new(empty.path()));
    assert_eq!(facts.problems, Vec::<String>::new());
    assert_eq!((&facts.memory, &facts.load_average, facts.cpu.allowed.len()), (&None, &None, 0));
    assert!(capability::list(&facts).iter().all(|one| one.available == one.needs.is_none()));
}
