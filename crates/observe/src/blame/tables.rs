// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unwind tables that do not keep who unwinds by them busy: no jumps in expressions, which could go round, and no
//! more instructions than a function can need.

use std::sync::Arc;

use gimli_of_framehop::{
    BaseAddresses, CallFrameInstruction, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, Expression,
    FrameDescriptionEntry, LittleEndian, Operation, UnwindExpression, UnwindSection as _,
};

/// Of a function and what it shares with others.
const INSTRUCTIONS_MOST: usize = 8192;
const EXPRESSION_MOST_BYTES: usize = 256;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// `.eh_frame`, and `.eh_frame_hdr` where the file has it.
#[derive(Debug, Clone)]
pub struct Tables {
    pub frame: Arc<[u8]>,
    pub header: Option<Arc<[u8]>>,
    pub bases: BaseAddresses,
}

impl Tables {
    fn frame(&self) -> EhFrame<Bytes<'_>> {
        let mut frame = EhFrame::new(&self.frame, LittleEndian);
        frame.set_address_size(8);
        frame
    }

    /// Whether the entry that framehop finds for an address may be used. It finds none where these cannot be read.
    pub fn is_sound(&self, address: u64) -> bool {
        let sound = || {
            let header = EhFrameHdr::new(self.header.as_ref()?, LittleEndian);
            let header = header.parse(&self.bases, 8).ok()?;
            let table = header.table()?;
            let at = table.lookup(address, &self.bases).ok()?;
            let at = table.pointer_to_offset(at).ok()?;
            let frame = self.frame();
            let entry = frame.fde_from_offset(&self.bases, at, EhFrame::cie_from_offset).ok()?;
            Some(is_sound(&frame, &self.bases, &entry))
        };
        sound().unwrap_or(true)
    }

    /// Whether all entries may be used: without a header framehop makes an index of them.
    pub fn are_all_sound(&self) -> bool {
        let frame = self.frame();
        let mut entries = frame.entries(&self.bases);
        loop {
            match entries.next() {
                Ok(Some(CieOrFde::Fde(entry))) => {
                    let Ok(entry) = entry.parse(EhFrame::cie_from_offset) else { return false };
                    if !is_sound(&frame, &self.bases, &entry) {
                        return false;
                    }
                }
                Ok(Some(CieOrFde::Cie(_))) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

fn is_sound(
    frame: &EhFrame<Bytes<'_>>,
    bases: &BaseAddresses,
    entry: &FrameDescriptionEntry<Bytes<'_>>,
) -> bool {
    let jumps = |expression: UnwindExpression<usize>| {
        let is_short = expression.length <= EXPRESSION_MOST_BYTES;
        let Some(Expression(bytes)) = expression.get(frame).ok().filter(|_| is_short) else {
            return true;
        };
        let mut operations = Expression(bytes).operations(entry.cie().encoding());
        std::iter::from_fn(|| operations.next().ok()?)
            .any(|of| matches!(of, Operation::Skip { .. } | Operation::Bra { .. }))
    };
    let shared = entry.cie().instructions(frame, bases);
    let mut left = INSTRUCTIONS_MOST;
    for mut instructions in [shared, entry.instructions(frame, bases)] {
        while let Ok(Some(instruction)) = instructions.next() {
            left -= 1;
            let is_endless = match instruction {
                CallFrameInstruction::DefCfaExpression { expression }
                | CallFrameInstruction::Expression { expression, .. }
                | CallFrameInstruction::ValExpression { expression, .. } => jumps(expression),
                _ => false,
            };
            if is_endless || left == 0 {
                return false;
            }
        }
    }
    true
}
