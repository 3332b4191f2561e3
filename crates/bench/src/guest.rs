// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples that guests made, as they are kept in one run at home.

use cowlab_schema::{VARIANT, in_instructions};
use cowlab_store::{Accelerator, Environment, Missing, Run, Sample};

use crate::command;

/// What guests brought, boot by boot.
#[derive(Debug, Clone, Default)]
pub struct Guests {
    /// One a kernel, in the order of their first boots.
    pub environments: Vec<Environment>,
    pub samples: Vec<Sample>,
    /// What could not be measured in them; each once.
    pub missing: Vec<Missing>,
    /// The boot whose samples came last, and the number of its first round.
    boot: Option<(u32, u32)>,
}

impl Guests {
    /// None yet; their environments are numbered after those of others in the same run.
    pub fn beside(environments: Vec<Environment>) -> Guests {
        Guests { environments, ..Guests::default() }
    }

    /// Add the run of a boot of `variant`, the `boot`-th of that kernel. Every sample gets the
    /// parameter `variant`; its round is numbered on from the boots before, so that equal rounds of
    /// several kernels were measured one boot after the other.
    pub fn add(&mut self, run: Run, variant: &str, boot: u32) {
        // All kernels' rounds of a boot have the same numbers, and none of an earlier boot, also where one
        // of those was cut short.
        let first_round = match self.boot {
            Some((last, first)) if last == boot => first,
            _ => self.samples.iter().map(|sample| sample.rep + 1).max().unwrap_or(0),
        };
        self.boot = Some((boot, first_round));
        let counted = |e: &Environment| e.accelerator == Accelerator::Icount;
        let is_counted = run.info.environments.first().is_some_and(counted);
        let same = |own: &Environment, new: &Environment| {
            (own.accelerator, &own.kernel, &own.build) == (new.accelerator, &new.kernel, &new.build)
        };
        let indices: Vec<u32> = run
            .info
            .environments
            .into_iter()
            .map(|environment| {
                let known = self.environments.iter().position(|own| same(own, &environment));
                known.unwrap_or_else(|| {
                    self.environments.push(environment);
                    self.environments.len() - 1
                }) as u32
            })
            .collect();
        // Such a clock skips the time in which the guest waits for its disk: of a program only what
        // it was charged is a count.
        let is_waiting = |s: &Sample| {
            is_counted
                && s.bench == command::BENCH
                && !s.metric.starts_with("cpu_")
                && s.unit == "ns"
        };
        for mut sample in run.samples.into_iter().filter(|sample| !is_waiting(sample)) {
            sample.environment = indices.get(sample.environment as usize).copied().unwrap_or(0);
            VARIANT.put(&mut sample.params, variant);
            sample.rep += first_round;
            if is_counted {
                count(&mut sample);
            }
            self.samples.push(sample);
        }
        for missing in run.info.missing {
            if !self.missing.contains(&missing) {
                self.missing.push(missing);
            }
        }
    }
}

/// The clock ticked once an instruction: what it measured is no time.
fn count(sample: &mut Sample) {
    let counted = in_instructions(&sample.metric).zip(in_instructions(&sample.unit));
    if let Some((metric, unit)) = counted {
        (sample.metric, sample.unit) = (metric, unit);
    }
}

#[cfg(test)]
mod tests {
    use cowlab_schema::{Metric, calibrate, command, cow_faults};
    use cowlab_store::RunInfo;

    use super::*;

    fn environment(kernel: &str, accelerator: Accelerator) -> Environment {
        Environment { kernel: kernel.into(), accelerator, ..Environment::default() }
    }

    fn run(kernel: &str, accelerator: Accelerator, metric: Metric) -> Run {
        let info = RunInfo::begin("bench-cow-faults", 1, environment(kernel, accelerator));
        let sample = |rep| Sample { rep, ..Sample::of(metric, Default::default(), 1.0) };
        Run { info, samples: vec![sample(0), sample(1)] }
    }

    #[test]
    fn boots_of_one_kernel_share_an_environment_and_number_their_rounds_on() {
        let mut guests = Guests::default();
        for boot in 0..2 {
            guests.add(run("6.12-plain", Accelerator::Tcg, cow_faults::ELAPSED_NS), "plain", boot);
            guests.add(
                run("6.12-patched", Accelerator::Tcg, cow_faults::ELAPSED_NS),
                "patched",
                boot,
            );
        }
        let kernels: Vec<&str> = guests.environments.iter().map(|e| e.kernel.as_str()).collect();
        assert_eq!(kernels, ["6.12-plain", "6.12-patched"]);
        let all: Vec<(u32, u32, &str)> = guests
            .samples
            .iter()
            .map(|s| (s.environment, s.rep, s.params["variant"].as_str()))
            .collect();
        assert_eq!(
            all,
            [
                (0, 0, "plain"),
                (0, 1, "plain"),
                (1, 0, "patched"),
                (1, 1, "patched"),
                (0, 2, "plain"),
                (0, 3, "plain"),
                (1, 2, "patched"),
                (1, 3, "patched"),
            ]
        );
        assert!(guests.samples.iter().all(|s| s.metric == "elapsed_ns"));
    }

    #[test]
    fn of_a_program_that_waits_only_its_cpu_time_is_counted() {
        let mut guests = Guests::default();
        for metric in [command::ELAPSED_NS, command::CPU_NS, command::MINOR_FAULTS] {
            guests.add(run("6.12", Accelerator::Icount, metric), "plain", 0);
        }
        let mut names: Vec<&str> = guests.samples.iter().map(|s| s.metric.as_str()).collect();
        names.dedup();
        assert_eq!(names, ["cpu_instructions", "minor_faults"]);
    }

    #[test]
    fn what_a_clock_of_instructions_measured_is_no_time() {
        let mut guests = Guests::default();
        for metric in [cow_faults::ELAPSED_NS, cow_faults::MINOR_FAULTS, calibrate::PTE_NS_PER_PAGE]
        {
            guests.add(run("6.12", Accelerator::Icount, metric), "plain", 0);
        }
        let names: Vec<(&str, &str)> = guests
            .samples
            .iter()
            .step_by(2)
            .map(|s| (s.metric.as_str(), s.unit.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("elapsed_instructions", "instructions"),
                ("minor_faults", "faults"),
                ("pte_instructions_per_page", "instructions_per_page"),
            ]
        );
    }
}
