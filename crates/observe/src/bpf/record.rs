// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of `bpf/record.h` in Rust.

mod bindings;
#[cfg(test)]
#[path = "../../../../casper/crates/casper/src/record/layout.rs"]
mod layout;

pub use bindings::*;

#[cfg(test)]
mod tests {
    /// The C compiler confirms every size, offset and value of the bindings.
    #[test]
    fn the_layout_is_the_headers() {
        let (structures, constants) =
            super::layout::compared(include_str!("record/bindings.rs"), "bpf");
        assert!(structures == 6 && constants > 12, "the lists are whole");
    }
}
