// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a guest of `cowlab kernel boot` was built and runs, from its kernel's command line.

use cowlab_store::{Accelerator, KernelBuild};
use serde::Serialize;

use crate::root::Reader;

/// Prefix of our words on the command line.
pub const PREFIX: &str = "cowlab.";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Guest {
    /// `cowlab.accelerator`: `kvm`, `tcg`, `icount`.
    pub accelerator: Option<Accelerator>,
    /// `cowlab.variant`, `cowlab.build` and `cowlab.source`.
    pub build: Option<KernelBuild>,
}

pub(crate) fn probe(reader: &Reader<'_>) -> Guest {
    let Some(line) = reader.text("proc/cmdline") else { return Guest::default() };
    guest_of(&line)
}

pub fn guest_of(command_line: &str) -> Guest {
    let value = |name: &str| {
        let mut words = command_line.split_whitespace().filter_map(|w| w.strip_prefix(PREFIX));
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    let accelerator = value("accelerator").and_then(|name| match name.as_str() {
        "kvm" => Some(Accelerator::Kvm),
        "tcg" => Some(Accelerator::Tcg),
        "icount" => Some(Accelerator::Icount),
        _ => None,
    });
    let build = value("variant").map(|variant| KernelBuild {
        variant,
        hash: value("build"),
        source: value("source"),
    });
    Guest { accelerator, build }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_tells() {
        let guest = guest_of(
            "console=ttyS0 cowlab.accelerator=tcg cowlab.variant=patched cowlab.build=12ab \
             cowlab.source=6.12.117-1 quiet",
        );
        assert_eq!(guest.accelerator, Some(Accelerator::Tcg));
        let build = guest.build.unwrap();
        assert_eq!((build.variant.as_str(), build.hash.as_deref()), ("patched", Some("12ab")));
        assert_eq!(build.source.as_deref(), Some("6.12.117-1"));
        assert_eq!(guest_of("root=/dev/vda cowlab.acceleratorx=kvm"), Guest::default());
    }
}
