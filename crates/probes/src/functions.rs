//! Functions of a module by its call frame information, which every compiler writes and `strip`
//! keeps: `.eh_frame`, from memory.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, LittleEndian, Pointer, Register, UnwindContext,
    UnwindSection,
};

use crate::image::Image;

/// rsp in the numbering of DWARF (x86-64 ABI, figure 3.36).
const STACK_POINTER: Register = Register(7);

/// A function, or a part of one that the compiler has put elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its addresses.
    pub range: Range<u64>,
    /// Table of its exception handlers.
    pub handlers: Option<u64>,
    /// Its entry in the section.
    offset: usize,
}

/// The functions of a module by address.
#[derive(Debug, Default)]
pub struct Functions {
    all: Vec<Function>,
    section: Vec<u8>,
    at: u64,
}

impl Functions {
    /// Reads the section that begins at `at`.
    pub fn parse(image: &Image, at: u64) -> Self {
        let bytes = image.from(at).unwrap_or_default();
        let mut functions = Self {
            all: Vec::new(),
            section: bytes[..section_bytes(bytes)].to_vec(),
            at,
        };
        functions.all = functions.read(image);
        functions
    }

    fn bases(&self) -> BaseAddresses {
        BaseAddresses::default().set_eh_frame(self.at)
    }

    fn read(&self, image: &Image) -> Vec<Function> {
        let bases = self.bases();
        let section = EhFrame::new(&self.section, LittleEndian);
        let mut entries = section.entries(&bases);
        let mut all = Vec::new();
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else {
                continue;
            };
            let start = entry.initial_address();
            let Some(end) = start.checked_add(entry.len()) else {
                continue;
            };
            if start < end && image.is_code(start) {
                all.push(Function {
                    range: start..end,
                    handlers: match entry.lsda() {
                        Some(Pointer::Direct(at)) => Some(at),
                        _ => None,
                    },
                    offset: entry.offset(),
                });
            }
        }
        all.sort_by_key(|f| (f.range.start, f.range.end));
        all.dedup_by_key(|f| f.range.start);
        all
    }

    /// All of them by address.
    pub fn all(&self) -> &[Function] {
        &self.all
    }

    /// The one that covers an address.
    pub fn covering(&self, at: u64) -> Option<&Function> {
        let below = self.all.partition_point(|f| f.range.start <= at);
        let function = self.all.get(below.checked_sub(1)?)?;
        function.range.contains(&at).then_some(function)
    }

    /// Where the next one begins; `u64::MAX` behind the last one.
    pub fn next_start(&self, after: u64) -> u64 {
        let next = self.all.partition_point(|f| f.range.start < after);
        self.all.get(next).map_or(u64::MAX, |f| f.range.start)
    }

    /// Whether the stack pointer is at the return address there, as at an entry. `None` = not
    /// known.
    pub fn is_at_return_address(&self, at: u64) -> Option<bool> {
        let function = self.covering(at)?;
        let bases = self.bases();
        let section = EhFrame::new(&self.section, LittleEndian);
        let offset = gimli::EhFrameOffset(function.offset);
        let entry = section.fde_from_offset(&bases, offset, EhFrame::cie_from_offset);
        let mut context = UnwindContext::new();
        let entry = entry.ok()?;
        let row = entry.unwind_info_for_address(&section, &bases, &mut context, at);
        match *row.ok()?.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Some(register == STACK_POINTER && offset == 8)
            }
            CfaRule::Expression(_) => None,
        }
    }
}

/// Bytes up to the entry of length 0, with which the section ends.
fn section_bytes(bytes: &[u8]) -> usize {
    let mut at = 0usize;
    loop {
        let length = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let length = length.map_or(0, |four| u32::from_le_bytes(*four));
        // 0xffffffff: a length of 64 bits follows, which no linker writes here.
        let next = (at + 4).saturating_add(length as usize);
        if length == 0 || length == u32::MAX || next > bytes.len() {
            return at;
        }
        at = next;
    }
}

#[cfg(test)]
impl Function {
    pub(crate) fn for_tests(range: Range<u64>, handlers: Option<u64>) -> Self {
        Self {
            range,
            handlers,
            offset: 0,
        }
    }
}

#[cfg(test)]
impl Functions {
    pub(crate) fn for_tests(ranges: &[Range<u64>]) -> Self {
        let all = ranges.iter().cloned();
        Self {
            all: all.map(|r| Function::for_tests(r, None)).collect(),
            section: Vec::new(),
            at: 0,
        }
    }
}
