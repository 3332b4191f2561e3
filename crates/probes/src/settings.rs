// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The choices that probes share, with the names that flags and samples use.

use std::fmt;
use std::str::FromStr;

/// A set of named choices, parsed from and printed as the names given.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $text),+ })
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err(format!(
                        concat!("unknown ", $what, " '{}': choose one of {}"),
                        text, [$($text),+].join(", ")
                    )),
                }
            }
        }
    };
}

choices! {
    /// How a process is created.
    Method, "method", {
        /// fork(2).
        Fork = "fork",
        /// vfork(2): the parent waits, the child uses the parent's memory.
        Vfork = "vfork",
        /// clone3(2) with CLONE_VM and CLONE_VFORK, and a stack for the child.
        CloneVmVfork = "clone-vm-vfork",
        /// posix_spawn(3) of a tiny static program.
        PosixSpawn = "posix-spawn",
        /// fork(2), then execve(2) of a tiny static program.
        ForkExec = "fork+exec",
        /// vfork(2), then execve(2) of a tiny static program.
        VforkExec = "vfork+exec",
    }
}

choices! {
    /// Who writes after the fork.
    Writer, "writer", {
        /// The child, as in document 000.
        Child = "child",
        /// The parent, while the child is held alive: the pages are copied.
        Parent = "parent",
        /// The parent, after the child has ended: the pages are only re-used.
        ParentReuse = "parent-reuse",
    }
}

choices! {
    /// The order of the writes after a fork.
    Pattern, "pattern", {
        /// One page, chosen at random.
        Single = "single",
        /// Every page in order.
        Sequential = "sequential",
        /// Every page once, in random order.
        Random = "random",
    }
}

choices! {
    /// Where the blocks lie that Zipf's law chooses most often.
    Placement, "placement", {
        /// Anywhere, by a random permutation, as YCSB scatters its keys.
        Scattered = "scattered",
        /// In the order of their ranks, the most frequent first.
        Ranked = "ranked",
    }
}

/// How children are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reap {
    /// Each before the next fork.
    Each,
    /// At most this many are alive.
    AtMost(u64),
    /// Only when no more can be made, as published; CPU time of the unreaped is lost.
    Never,
}

impl fmt::Display for Reap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reap::Each => f.write_str("each"),
            Reap::AtMost(alive) => write!(f, "{alive}"),
            Reap::Never => f.write_str("never"),
        }
    }
}

impl FromStr for Reap {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("each", _) | (_, Ok(1)) => Ok(Reap::Each),
            ("never", _) => Ok(Reap::Never),
            (_, Ok(alive @ 2..)) => Ok(Reap::AtMost(alive)),
            _ => Err(format!("'{text}' is none of: each, never, a number of children alive")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_printed() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(*method));
        }
        for reap in [Reap::Each, Reap::AtMost(5), Reap::Never] {
            assert_eq!(reap.to_string().parse(), Ok(reap));
        }
        assert!("0".parse::<Reap>().is_err());
        let error = "spoon".parse::<Method>().unwrap_err();
        assert!(error.contains("'spoon'") && error.contains("vfork+exec"), "{error}");
    }
}
