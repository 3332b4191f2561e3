// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of the kernel's functions belong to which section of a fork.

pub use cowlab_schema::fork_sections::Section;

/// The function that is the whole fork, as the kernel sees it.
pub const ROOT: &str = "kernel_clone";

/// Where a section begins: a function that is not here belongs to its caller's section. Those whose
/// callers are of the same section stand here all the same, for the sections' own figures.
const BEGINS: [(&str, Section); 28] = [
    ("alloc_pid", Section::Identity),
    ("attach_pid", Section::Identity),
    ("dup_task_struct", Section::Task),
    ("alloc_thread_stack_node", Section::Task),
    ("copy_thread", Section::Task),
    ("fpu_clone", Section::Task),
    ("copy_files", Section::Files),
    ("copy_fs", Section::Files),
    ("copy_sighand", Section::Files),
    ("copy_signal", Section::Files),
    ("copy_mm", Section::Areas),
    ("dup_mm", Section::Areas),
    ("mm_init", Section::Areas),
    ("dup_mmap", Section::Areas),
    ("vm_area_dup", Section::Areas),
    ("anon_vma_fork", Section::Areas),
    ("__mt_dup", Section::Areas),
    ("pgd_alloc", Section::PageTables),
    ("copy_page_range", Section::PageTables),
    ("copy_creds", Section::Rest),
    ("copy_namespaces", Section::Rest),
    ("sched_fork", Section::Rest),
    ("sched_cgroup_fork", Section::Rest),
    ("sched_post_fork", Section::Rest),
    ("cgroup_can_fork", Section::Rest),
    ("cgroup_post_fork", Section::Rest),
    ("wake_up_new_task", Section::Rest),
    ("copy_process", Section::Rest),
];

pub fn begun_by(function: &str) -> Option<Section> {
    BEGINS.iter().find(|(name, _)| *name == function).map(|(_, section)| *section)
}

/// The functions that are recorded for the sections' times: these and no others, so that the probes
/// are few. None of them runs in a child: each task that records takes a buffer.
pub fn recorded() -> Vec<String> {
    BEGINS.iter().map(|(name, _)| (*name).to_owned()).chain([ROOT.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_begins_somewhere_and_each_function_once() {
        for section in Section::ALL {
            assert!(BEGINS.iter().any(|(_, of)| of == section), "{section}");
        }
        let mut names = recorded();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), BEGINS.len() + 1);
        assert_eq!(begun_by("copy_mm"), Some(Section::Areas));
        assert_eq!(begun_by("kmalloc"), None);
    }
}
