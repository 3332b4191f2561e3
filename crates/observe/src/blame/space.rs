// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The code of one process, and its stacks.

use std::ops::Range;
use std::sync::Arc;

use cowlab_machine::mappings::Mapping;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};

use crate::blame::image::{Bytes, Image, Images};

/// No real stack has more frames; one that has goes round.
const FRAMES_MOST: usize = 512;

#[derive(Debug, Clone)]
pub enum Place {
    /// In a file, at an address of the file's own.
    File(Arc<Image>, u64),
    /// Anywhere else: code that the program made itself, or nothing that is known.
    Memory(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Whole,
    /// The piece of stack was too short.
    TooShort,
    /// At code that has no unwind tables, and did not keep frame pointers either.
    NoTables,
}

/// A stack, its innermost frame first. Of a frame that called another, the place is in the call.
#[derive(Debug, Clone)]
pub struct Stack {
    pub places: Vec<Place>,
    pub end: End,
}

/// What one thread keeps for unwinding: the rules that it met.
pub struct Unwinding(CacheX86_64);

impl Default for Unwinding {
    fn default() -> Self {
        Unwinding(CacheX86_64::new())
    }
}

/// The code that a process had mapped at a moment.
pub struct Space {
    mappings: Vec<Mapping>,
    unwinder: UnwinderX86_64<Bytes>,
    code: Vec<Code>,
}

struct Code {
    range: Range<u64>,
    bias: u64,
    image: Arc<Image>,
}

impl Space {
    /// Of the mappings of process `pid`, whose files are opened now.
    pub fn new(pid: i32, mappings: Vec<Mapping>, images: &mut Images) -> Space {
        let (mut unwinder, mut code) = (UnwinderX86_64::new(), Vec::new());
        for mapping in mappings.iter().filter(|mapping| mapping.is_executable) {
            let Some(image) = images.of(pid, mapping) else { continue };
            let Some(bias) = image.bias(mapping) else { continue };
            unwinder.add_module(module(&image, mapping.range.clone(), bias));
            code.push(Code { range: mapping.range.clone(), bias, image });
        }
        Space { mappings, unwinder, code }
    }

    pub fn mapping(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.range.start <= address);
        let mapping = self.mappings.get(after.checked_sub(1)?)?;
        mapping.range.contains(&address).then_some(mapping)
    }

    /// The files whose code is mapped.
    pub fn images(&self) -> impl Iterator<Item = &Arc<Image>> {
        self.code.iter().map(|code| &code.image)
    }

    /// Unwinds from the registers (instruction, stack and frame pointer) with the stack from its
    /// pointer on; `beyond` has what is above that.
    pub fn unwind(
        &self,
        with: &mut Unwinding,
        registers: [u64; 3],
        stack: &[u8],
        mut beyond: impl FnMut(u64) -> Option<u64>,
    ) -> Stack {
        let [ip, sp, fp] = registers;
        let mut is_short = false;
        let mut read = |address: u64| {
            let at = address.checked_sub(sp).ok_or(())?;
            let at = usize::try_from(at).map_err(|_| ())?;
            let word = at.checked_add(8).and_then(|end| stack.get(at..end));
            let word = match word {
                Some(word) => Some(u64::from_le_bytes(word.try_into().expect("eight bytes"))),
                None => beyond(address),
            };
            is_short |= word.is_none();
            word.ok_or(())
        };
        let mut registers = UnwindRegsX86_64::new(ip, sp, fp);
        let mut address = FrameAddress::from_instruction_pointer(ip);
        let mut places = vec![self.place(address)];
        let end = loop {
            let caller =
                self.unwinder.unwind_frame(address, &mut registers, &mut with.0, &mut read);
            let caller = match caller {
                Ok(caller) => caller,
                Err(Error::CouldNotReadStack(_)) => break End::TooShort,
                Err(_) => break End::NoTables,
            };
            let Some(return_address) = caller.filter(|address| *address != 0) else {
                break End::Whole;
            };
            if places.len() == FRAMES_MOST {
                break End::NoTables;
            }
            if self.returns_from_signal(return_address) {
                match interrupted(registers.sp(), &mut read) {
                    Ok([ip, sp, fp]) => {
                        registers = UnwindRegsX86_64::new(ip, sp, fp);
                        address = FrameAddress::from_instruction_pointer(ip);
                    }
                    Err(()) => break End::TooShort,
                }
            } else if let Some(caller) = FrameAddress::from_return_address(return_address) {
                address = caller;
            }
            places.push(self.place(address));
        };
        let is_known = |place: &Place| matches!(place, Place::File(..));
        // Frame pointers that are none end anywhere, as if that were the outermost frame.
        let end = match end {
            End::Whole if is_short => End::TooShort,
            End::Whole if !places.last().is_some_and(is_known) => End::NoTables,
            end => end,
        };
        Stack { places, end }
    }

    fn code(&self, address: u64) -> Option<&Code> {
        let after = self.code.partition_point(|code| code.range.start <= address);
        let code = self.code.get(after.checked_sub(1)?)?;
        code.range.contains(&address).then_some(code)
    }

    /// Whether code is where a signal's handler returns to.
    fn returns_from_signal(&self, address: u64) -> bool {
        let code = self.code(address);
        code.is_some_and(|code| code.image.returns_from_signal(address.wrapping_sub(code.bias)))
    }

    fn place(&self, frame: FrameAddress) -> Place {
        let address = frame.address_for_lookup();
        match self.code(address) {
            Some(code) => Place::File(code.image.clone(), address.wrapping_sub(code.bias)),
            None => Place::Memory(address),
        }
    }
}

/// The registers of what a signal interrupted (instruction, stack and frame pointer), of the ucontext_t
/// that the kernel left where the handler returns (sigaction(2); sys/ucontext.h of glibc).
fn interrupted(
    ucontext: u64,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Result<[u64; 3], ()> {
    const GREGS_BYTES: u64 = 40;
    const RIP: u64 = 16;
    const RSP: u64 = 15;
    const RBP: u64 = 10;
    let mut register = |number: u64| read(ucontext.wrapping_add(GREGS_BYTES + 8 * number));
    Ok([register(RIP)?, register(RSP)?, register(RBP)?])
}

fn module(image: &Image, range: Range<u64>, bias: u64) -> Module<Bytes> {
    let parts = |section: &Option<(Range<u64>, Bytes)>| section.clone().unzip();
    let (eh_frame_svma, eh_frame) = parts(&image.eh_frame);
    let (eh_frame_hdr_svma, eh_frame_hdr) = parts(&image.eh_frame_hdr);
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: image.text.clone(),
        got_svma: image.got.clone(),
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        debug_frame: image.debug_frame.clone(),
        ..Default::default()
    };
    Module::new(image.path.clone(), range, bias, sections)
}
