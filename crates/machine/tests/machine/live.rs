// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The probe on the machine that runs the tests, whatever it is.

use cowlab_machine::{Facts, ProcessFacts, Root, capability, cpu, fit, verdict};

#[test]
fn this_machine_has_facts() {
    let root = Root::default();
    assert!(root.is_live());
    let facts = Facts::probe(&root);
    assert_eq!(facts.cpu.allowed, cpu::allowed(&root));
    assert!(!facts.cpu.allowed.is_empty() && facts.page_size_bytes.is_power_of_two());
    let memory = facts.memory.as_ref().unwrap();
    assert!(memory.total_bytes > memory.free_bytes);
    assert!(facts.limits.is_some() && facts.credentials.is_some());
    assert_eq!(facts.environment().kernel, facts.kernel);
    assert!(!capability::list(&facts).is_empty());
    let text = serde_json::to_string(&facts).unwrap();
    assert!(text.contains("page_size_bytes"));
    let absurd =
        fit::Need { heap_bytes: 1 << 60, written_bytes: 0, children: 0, page_size_bytes: 4096 };
    assert!(fit::check(&facts, &absurd).is_err());
}

#[test]
fn this_process_can_be_looked_at() {
    let pid = std::process::id() as i32;
    let facts = Facts::probe(&Root::default());
    let process = ProcessFacts::probe(&Root::default(), pid).unwrap();
    assert!(process.anonymous_bytes > 0 && process.accounted_bytes >= process.anonymous_bytes / 2);
    let verdict = verdict::fork_of(&facts, &process, None, None);
    assert!(verdict.page_table_bytes > 0 && verdict.worst_case_bytes > verdict.private_bytes);
}
