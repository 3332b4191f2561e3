// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The code of one process, and its stacks.

use std::io::Read as _;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cowlab_machine::mappings::decode;
use cowlab_machine::process::Target;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, FrameAddress, Unwinder};
use rustc_hash::FxHashMap;

use crate::blame::image::{Image, Images};

/// No real stack has more frames; one that has goes round.
const FRAMES_MOST: usize = 512;
/// Places that are told apart; all others are one.
const PLACES_MOST: usize = 1 << 18;
/// What is read of a process's mappings, and how many are kept: a MiB.
pub(super) const MAPS_MOST_BYTES: u64 = 16 << 20;
const REGIONS_MOST: usize = 32_768;
const CODE_MOST: usize = 4096;
/// How long the files of a process may take.
const FILES_MOST: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub enum Place {
    /// In a file, at an address of the file's own.
    File(Arc<Image>, u64),
    /// Anywhere else, of a process: code that the program made itself, or nothing that is known.
    Memory(u32, u64),
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
    /// Positions in [`Unwinding::places`].
    pub places: Vec<u32>,
    pub end: End,
}

/// What is there of a thread's registers and stack.
pub struct Recorded<'a> {
    /// Instruction, stack and frame pointer.
    pub registers: [u64; 3],
    /// From the stack pointer on.
    pub stack: &'a [u8],
    /// The end of the stack with its address.
    pub upper: (u64, &'a [u8]),
}

impl Recorded<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let within = |start: u64, bytes: &[u8]| {
            let at = usize::try_from(address.checked_sub(start)?).ok()?;
            Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
        };
        within(self.registers[1], self.stack).or_else(|| within(self.upper.0, self.upper.1))
    }
}

/// What is kept for unwinding: the rules that were met, and all places.
pub struct Unwinding {
    cache: CacheX86_64,
    /// Of code that is in no file.
    by_pointers: UnwinderX86_64<Arc<[u8]>>,
    pub places: Vec<Place>,
    is_sound: Vec<bool>,
    known: FxHashMap<(usize, u64), u32>,
}

impl Default for Unwinding {
    fn default() -> Self {
        Unwinding {
            cache: CacheX86_64::new(),
            by_pointers: UnwinderX86_64::new(),
            places: vec![Place::Memory(0, 0)],
            is_sound: vec![true],
            known: FxHashMap::default(),
        }
    }
}

impl Unwinding {
    pub fn in_memory(&mut self, pid: u32, address: u64) -> u32 {
        self.number((pid as usize, address), || (Place::Memory(pid, address), true))
    }

    fn in_file(&mut self, image: &Arc<Image>, address: u64) -> u32 {
        let place = || (Place::File(Arc::clone(image), address), image.is_sound(address));
        self.number((Arc::as_ptr(image) as usize, address), place)
    }

    fn number(&mut self, key: (usize, u64), place: impl FnOnce() -> (Place, bool)) -> u32 {
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.places.len() >= PLACES_MOST {
            return 0;
        }
        let number = self.places.len() as u32;
        let (place, is_sound) = place();
        self.known.insert(key, number);
        self.places.push(place);
        self.is_sound.push(is_sound);
        number
    }
}

/// The code that a process had mapped at a moment.
pub struct Space {
    regions: Vec<Region>,
    code: Vec<Code>,
}

/// A private mapping.
pub struct Region {
    pub range: Range<u64>,
    pub name: Arc<str>,
}

struct Code {
    range: Range<u64>,
    bias: u64,
    image: Arc<Image>,
}

impl Space {
    /// Reads the mappings of a process, and their files where they are new.
    pub fn read(target: &Target, images: &Mutex<Images>) -> Option<Space> {
        let mut bytes = Vec::new();
        let maps = target.open_file("maps").ok()?;
        maps.take(MAPS_MOST_BYTES).read_to_end(&mut bytes).ok()?;
        // Each line ends with a newline; the last one may be cut.
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n')? + 1);
        let mut is_cut = bytes.len() as u64 > MAPS_MOST_BYTES - 8192;
        let all = decode(&String::from_utf8_lossy(&bytes)).ok()?;
        drop(bytes);
        let (mut code, began) = (Vec::new(), Instant::now());
        for mapping in all.iter().filter(|mapping| mapping.is_executable) {
            if code.len() >= CODE_MOST || began.elapsed() > FILES_MOST {
                is_cut = true;
                break;
            }
            let Some(image) = Images::of(images, target.pid(), mapping) else { continue };
            let Some(bias) = image.bias(mapping) else { continue };
            code.push(Code { range: mapping.range.clone(), bias, image });
        }
        let mut images = Images::lock(images);
        let is_private = |of: &&cowlab_machine::mappings::Mapping| of.is_private();
        let regions: Vec<Region> = all
            .iter()
            .filter(is_private)
            .take(REGIONS_MOST)
            .map(|of| Region {
                range: of.range.clone(),
                name: images.name(of.name.as_deref().unwrap_or(of.kind.name())),
            })
            .collect();
        images.cut += u64::from(is_cut || regions.len() == REGIONS_MOST);
        Some(Space { regions, code })
    }

    pub fn region(&self, address: u64) -> Option<&Region> {
        let after = self.regions.partition_point(|region| region.range.start <= address);
        let region = self.regions.get(after.checked_sub(1)?)?;
        region.range.contains(&address).then_some(region)
    }

    /// The files whose code is mapped.
    pub fn images(&self) -> impl Iterator<Item = &Arc<Image>> {
        self.code.iter().map(|code| &code.image)
    }

    /// Unwinds a stack of process `pid`.
    pub fn unwind(&self, with: &mut Unwinding, pid: u32, recorded: &Recorded<'_>) -> Stack {
        let [ip, sp, fp] = recorded.registers;
        let mut is_short = false;
        let mut read = |address: u64| {
            let word = recorded.word(address);
            is_short |= word.is_none();
            word.ok_or(())
        };
        let mut registers = UnwindRegsX86_64::new(ip, sp, fp);
        let mut address = FrameAddress::from_instruction_pointer(ip);
        let (mut places, mut is_known) = (Vec::new(), false);
        let end = loop {
            if places.len() == FRAMES_MOST {
                break End::NoTables;
            }
            let code = self.code(address.address_for_lookup());
            is_known = code.is_some();
            let at = address.address_for_lookup();
            let place = match code {
                Some(code) => with.in_file(&code.image, at.wrapping_sub(code.bias)),
                None => with.in_memory(pid, at),
            };
            places.push(place);
            if !with.is_sound[place as usize] {
                break End::NoTables;
            }
            let cache = &mut with.cache;
            let caller = match code {
                Some(code) => match code.address(address) {
                    Some(address) => {
                        code.image.unwinder.unwind_frame(address, &mut registers, cache, &mut read)
                    }
                    None => break End::NoTables,
                },
                None => with.by_pointers.unwind_frame(address, &mut registers, cache, &mut read),
            };
            let caller = match caller {
                Ok(caller) => caller,
                Err(Error::CouldNotReadStack(_)) => break End::TooShort,
                Err(_) => break End::NoTables,
            };
            let Some(return_address) = caller.filter(|address| *address != 0) else {
                break End::Whole;
            };
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
        };
        // Frame pointers that are none end anywhere, as if that were the outermost frame.
        let end = match end {
            End::Whole if is_short => End::TooShort,
            End::Whole if !is_known => End::NoTables,
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
}

impl Code {
    /// The same address as the file's.
    fn address(&self, frame: FrameAddress) -> Option<FrameAddress> {
        let address = frame.address().wrapping_sub(self.bias);
        match frame.is_return_address() {
            true => FrameAddress::from_return_address(address),
            false => Some(FrameAddress::from_instruction_pointer(address)),
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
