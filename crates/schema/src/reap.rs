// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How children are waited for.

use std::fmt;
use std::str::FromStr;

use crate::Value;

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

impl Value for Reap {
    const KIND: &'static str = "each, never, or a number of children alive";
    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_printed() {
        for reap in [Reap::Each, Reap::AtMost(5), Reap::Never] {
            assert_eq!(reap.to_string().parse(), Ok(reap));
        }
        assert!("0".parse::<Reap>().is_err());
    }
}
