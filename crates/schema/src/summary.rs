// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of each verb's `summary` in the document of `--json`. The end-to-end tests fail on an
//! undocumented key.

/// A verb's `summary`.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    /// The verb, or several with the same.
    pub verbs: &'static [&'static str],
    /// Whether it is a list of these.
    pub is_list: bool,
    /// Each key and its meaning; empty for a document that is the rendered report itself.
    pub keys: &'static [(&'static str, &'static str)],
}

type Keys = &'static [(&'static str, &'static str)];

const fn one(verbs: &'static [&'static str], keys: Keys) -> Summary {
    Summary { verbs, is_list: false, keys }
}

const fn list(verbs: &'static [&'static str], keys: Keys) -> Summary {
    Summary { verbs, is_list: true, keys }
}

/// `one "verb" { key: "meaning", … }`; `list` if the summary is a list of these.
macro_rules! summaries {
    ($($kind:ident $($verb:literal),+ { $($key:ident: $what:literal,)* })*) => {
        &[$($kind(&[$($verb),+], &[$((stringify!($key), $what)),*])),*]
    };
}

/// Every verb that has one.
pub const SUMMARIES: &[Summary] = summaries! {
    list "bench", "study ccow", "study next-page" {
        bench: "the bench",
        params: "its parameters",
        metric: "the metric",
        unit: "its unit",
        value: "the median",
        low: "the lower end of its 95% interval",
        high: "the upper end",
        count: "samples that it rests on",
    }
    one "blame" {
        copied_pages: "pages that forks share and that were copied",
        copied_bytes: "the same in bytes",
        other_pages: "copied pages that no fork shares: of files, when a program begins",
        workers: "by program: how many processes that were forked copied some",
        told_stacks: "stacks that it rests on",
        whole_stacks: "of them, those that go to where the program or thread begins",
        lost_stacks: "stacks that came faster than they could be read",
        told_every: "of the copies one in so many was told, at the least",
        places:
            "code: `program`, `writer`, `functions` (the innermost first), `cause`, `share`, \
             `pages` with `low_pages` and `high_pages`, `worker_bytes`",
    }
    one "calibrate" {
        page_size_bytes: "a base page",
        huge_page_bytes: "a huge page; null without",
        costs: "each primitive cost by name, with its interval",
        curves: "fork cycles by size of the heap, for each writer and number of threads",
        entries_among_work: "an entry by size of a scattered heap",
        copies_by_pace: "a copy by the program's own CPU time between two, where its writes are scattered",
        copies_in_order: "the same where they are sequential",
    }
    one "compare" {
        first: "the first run",
        second: "the second run",
        drift_percent: "what two runs of the same differ by anyway",
        compared: "figures that both have",
        different: "those of them that differ",
        too_few_repetitions: "those that were repeated too rarely to tell",
        only_in_one: "figures that one alone has",
        environments_differ: "what of the machines is not the same",
        figures: "each figure that both have",
    }
    one "completions" {
        shell: "the shell",
        script: "its completions",
    }
    one "cowlab" {
        host: "the machine's name",
        kernel: "its kernel",
        cpus: "CPUs that may be used",
        available_bytes: "memory that could be had now",
        thp: "the setting of huge pages; null without",
        abilities:
            "what an operator needs: `what`, the `command`, and what it `needs` (null: nothing)",
        programs:
            "programs that fork, worst first: `pid`, `name`, `how` (`workers`, `save`, \
             `programs`), `workers` and `executed` (living children that share its memory, and \
             others), `anonymous_bytes`, `stop_ns`, `is_surveyed` (false: the stop is by its size \
             alone), `own_bytes` (its workers'), `saved_bytes` (by sharing), `may_look` (false: \
             workers are told by name), `alike` (pids of the same name that cost less)",
        left_out: "processes that fork, and cost less than those",
        unseen: "processes whose memory may not be looked at",
        commands: "what would tell more about the first: `command`, `what`, `needs_root`",
    }
    one "doctor" {
        facts: "the machine",
        capabilities: "what cowlab can use, whether it is here, and what it needs",
    }
    one "explain" {
        pid: "the program's process: of a worker, its parent",
        name: "its name",
        findings:
            "what stands out, the most important first: `kind`, `weight` (`breaks`, `costs`, `explains`), \
             `seen`, `cause`, `what_to_do`, `rules_out_huge_pages`",
        fork:
            "whether its next fork is refused, and what it may take: `sentence`, `level`, `findings` \
             (`level`, `what`, `why`, `what_to_do`), `room`, `page_table_bytes`, `private_bytes`, \
             `worst_case_bytes`, `expected_bytes`",
        stop_ns:
            "its stop: `value`, `low`, `high`, and its `source`: `measured`, `asked`, `calibrated` or \
             `usual`, the best there is; null where it has no price",
        copied_bytes:
            "what is copied after a fork, in the same way; also by its living `children`, or `assumed`",
        last_fork_ns:
            "of a Redis that was asked: how long its last fork stopped it, by its own clock; else null",
        children: "its living children; null where they may not be looked at",
        seen_forks:
            "what it did while it was watched: `duration_s`, `forks`, `executed` and `ended` (of the \
             children), `spawns` (by vfork and posix_spawn), `stop_ns` (the median), \
             `shortest_stop_ns` and `longest_stop_ns`, `until_exec_ns` (from fork to exec, the median), \
             `longest_until_exec_ns`, `call` (the most frequent system call then: its number, calls by child), `spawn_ns` (from vfork to exec), `life_ns` (of children that executed \
             nothing); null where that was not seen",
        sharing: "what its workers share, as `sharing` says it; null without workers, or if `--quick`",
        copies:
            "which code copied pages meanwhile, as `blame` says it; null where that was not seen",
        advice_sentence: "the stop, the copies and what would help, in a sentence",
        application: "what the prices rest on; null where it has none",
        advice: "each choice: `choice`, `what`, `step`, `forecast`, `notes`",
        processes: "of several targets, instead of all these: each one's",
    }
    one "footprint" {
        method: "how writes were seen",
        reason: "why so",
        forks: "forks that were followed",
        spawns: "children of vfork and posix_spawn",
        unseen: "forks that ended unseen",
        longest_stop_ns: "how long the target was stopped at most, where it was",
        exit_status: "the command's, as wait(2) gives it",
    }
    one "insert" {
        functions_found: "functions in the sources",
        functions_instrumented: "those that report now",
        functions_not_selected: "those that no selection names",
        functions_left_alone: "those that cannot be instrumented",
        files: "each source, with its functions and why some are left alone",
        files_copied: "files that were copied as they are",
    }
    one "kernel boot" {
        kernel: "the kernel",
        accelerator: "how it was run",
        status: "the command's exit status",
        first_output_s: "seconds until it said something",
        duration_s: "seconds in all",
        complaints: "what the kernel complained of",
        output: "what the command printed",
    }
    one "kernel build" {
        kernels: "each kernel: where it is and what it is built from",
    }
    one "kernel test" {
        passed: "tests that passed",
        failed: "tests that failed",
        skipped: "tests that could not run",
        problems: "results that are not as expected",
        sessions: "each kernel under each policy, with its tests",
    }
    one "man" {
        output: "the folder",
    }
    one "predict" {
        answers:
            "of sizes: `write_fraction`, `question`, `prediction` (`elapsed_ns`, `fork_ns`, `write_ns`, \
             `extra_bytes`, `notes`), and with `--policy defer` `deferred`",
        sentence: "of a footprint: the answer",
        application: "of a footprint: what the program maps and writes",
        advice: "of a footprint: each choice, as `explain` has it",
    }
    one "sharing" {
        sentences: "the answer",
        pid: "the parent",
        name: "its name",
        rss_bytes: "Rss of the parent and all workers, as ps adds it up",
        pss_bytes: "their Pss: what they use together",
        saved: "the difference: `fork_bytes`, `file_bytes`, `shm_bytes`",
        ksm_bytes: "pages that KSM merged: at most so much of `fork_bytes` is its doing",
        swapped_bytes: "in swap, each page divided by the processes that have it",
        restart_saves_bytes: "own memory of the workers above the youngest's; null of one worker",
        unseen: "pids of children that may not be looked at",
        workers:
            "the parent and each worker: `pid`, `parent`, `slot`, `age_s`, `rss_bytes`, \
             `pss_bytes`, `shared_bytes`, `own_bytes`, `copied_bytes`, `file_bytes`, `shm_bytes`, \
             `ksm_bytes`, `swapped_bytes`, `erosion_bytes_per_s`, `shared_ends_s`, \
             `settles_at_bytes`",
    }
    one "study" {
        lines: "the line through each written fraction, and how well it fits",
        equation: "the terms of the cost model",
        service_to_copy_ratio: "what a page costs by its fault, over its copy alone",
        fork_from_intercepts_ns: "a fork of nothing, by the lines",
        fork_without_heap_ns: "the same, measured",
        check: "predictions of points that were used for no fit",
        findings: "the report's findings",
        not_available: "what could not be said, and why",
    }
    list "tend --dry-run" {
        pid: "the process",
        name: "its name",
        plan: "regions of each kind, and pages that would be filled in",
        stops: "the next fork's stop, `now` and `after`",
        between_forks_s: "from one fork to the next; null where fewer than two were seen in a second",
        most_regions_between_forks: "how many regions tend can join meanwhile",
    }
};
