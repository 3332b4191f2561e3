// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Named choices, each with the one name that flags, samples and C probes use.

/// An enum of named choices: parsed from and printed as the names given, in serde as well. Whoever
/// uses it needs serde.
#[macro_export]
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident, $what:literal, {
        $($(#[doc = $meaning:literal])+ $variant:ident = $text:literal),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize,
            serde::Deserialize,
        )]
        pub enum $name { $($(#[doc = $meaning])+ #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Its name in flags, samples and probes.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|one| one.name() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|one| one.name()).collect();
                    format!(concat!("unknown ", $what, " '{}': choose one of {}"), text,
                        known.join(", "))
                })
            }
        }

        impl $crate::Value for $name {
            fn parse(text: &str) -> Result<Self, String> {
                text.parse()
            }
            fn known() -> Vec<(Self, String)> {
                vec![$(($name::$variant, concat!($($meaning),+).trim().to_owned())),+]
            }
        }
    };
}

choices! {
    /// How a process is created.
    Method, "method", {
        /// fork(2)
        Fork = "fork",
        /// vfork(2): the parent waits, the child uses the parent's memory
        Vfork = "vfork",
        /// clone3(2) with CLONE_VM and CLONE_VFORK, and a stack for the child
        CloneVmVfork = "clone-vm-vfork",
        /// posix_spawn(3) of a tiny static program
        PosixSpawn = "posix-spawn",
        /// fork(2), then execve(2) of a tiny static program
        ForkExec = "fork+exec",
        /// vfork(2), then execve(2) of a tiny static program
        VforkExec = "vfork+exec",
    }
}

choices! {
    /// Who writes after a fork.
    Writer, "writer", {
        /// the child
        Child = "child",
        /// the parent, while a child is alive: the pages are copied
        Parent = "parent",
        /// the parent, after the child has ended: the pages are only re-used
        ParentReuse = "parent-reuse",
        /// a process that was looked at without a fork
        Own = "own",
        /// the parent or the child
        Either = "either",
    }
}

choices! {
    /// The order of the writes after a fork.
    Pattern, "pattern", {
        /// one page, chosen at random
        Single = "single",
        /// every page in order
        Sequential = "sequential",
        /// every page once, in random order
        Random = "random",
    }
}

choices! {
    /// Where the blocks lie that Zipf's law chooses most often.
    Placement, "placement", {
        /// anywhere, by a random permutation, as YCSB scatters its keys
        Scattered = "scattered",
        /// in the order of their ranks, the most frequent first
        Ranked = "ranked",
    }
}

choices! {
    /// What is asked of a kernel that counts copy-on-write faults.
    Counting, "counting", {
        /// nothing: it does not count
        None = "none",
        /// its counts around the writes
        Counts = "counts",
        /// its own times of each fault as well, in repetitions of their own; needs root
        Times = "times",
    }
}

pub(crate) use choices;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_printed() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(*method));
        }
        let error = "spoon".parse::<Method>().unwrap_err();
        assert!(error.contains("'spoon'") && error.contains("vfork+exec"), "{error}");
    }
}
