//! Addresses in the middle of code that execution may come to by something else than the
//! instruction before: jumps, tables of jumps, returns, exceptions.
//!
//! A patch must not have one of them strictly inside. What is found too much only makes functions
//! unpatchable; what is missed would break the program. So every table that could be one counts.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

use crate::functions::{Function, Functions};
use crate::handlers::landing_pads;
use crate::image::Image;

/// Entries of one table that are read. Of a longer one nothing is known.
const MAX_ENTRIES: usize = 1 << 16;
/// Code addresses of one function that tables are tried to be relative to.
const MAX_BASES: usize = 16;

/// What is known about a module's targets.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    /// Ascending.
    addresses: Vec<u64>,
    /// Starts of functions that have a table of jumps; ascending.
    with_tables: Vec<u64>,
    /// Starts of functions whose exception handlers are not known; ascending.
    unreadable: Vec<u64>,
    /// Starts of functions that a table leads into which is longer than what was read; ascending.
    of_long_tables: Vec<u64>,
}

/// Whether a sorted list has an element in a range.
fn has_in(sorted: &[u64], range: &Range<u64>) -> bool {
    let first = sorted.partition_point(|at| *at < range.start);
    sorted.get(first).is_some_and(|at| *at < range.end)
}

impl Targets {
    /// Looks through all functions of a module.
    pub fn find(image: &Image, functions: &Functions) -> Self {
        let mut search = Search {
            image,
            functions,
            found: Vec::new(),
            named: BTreeSet::new(),
            users: Vec::new(),
            unreadable: Vec::new(),
            of_long_tables: BTreeSet::new(),
        };
        for function in functions.all() {
            search.look_at(function);
        }
        search.finish()
    }

    /// Whether execution may come to an address of this range from elsewhere.
    pub fn has_in(&self, range: Range<u64>) -> bool {
        has_in(&self.addresses, &range)
    }

    /// Whether this function jumps by a table.
    pub fn has_table(&self, function: u64) -> bool {
        self.with_tables.binary_search(&function).is_ok()
    }

    /// Whether a table leads into this function that was not read to its end.
    pub fn has_long_table(&self, function: u64) -> bool {
        self.of_long_tables.binary_search(&function).is_ok()
    }

    /// Whether the exception handlers of this function are not known.
    pub fn is_unreadable(&self, function: u64) -> bool {
        self.unreadable.binary_search(&function).is_ok()
    }
}

/// A function that jumps to where a register or memory says, and the addresses that it names.
struct TableUser {
    function: Range<u64>,
    data: Vec<u64>,
    code: Vec<u64>,
}

struct Search<'a> {
    image: &'a Image,
    functions: &'a Functions,
    found: Vec<u64>,
    /// Addresses of data that any code names: where one table begins, the one before has ended.
    named: BTreeSet<u64>,
    users: Vec<TableUser>,
    unreadable: Vec<u64>,
    of_long_tables: BTreeSet<u64>,
}

impl Search<'_> {
    fn look_at(&mut self, function: &Function) {
        let start = function.range.start;
        match landing_pads(self.image, function) {
            Some(pads) => self.found.extend(pads),
            None => self.unreadable.push(start),
        }
        let Some(code) = self.image.range(&function.range) else {
            return;
        };
        let mut user = TableUser {
            function: function.range.clone(),
            data: Vec::new(),
            code: Vec::new(),
        };
        let mut has_indirect_jump = false;
        for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
            match instruction.flow_control() {
                FlowControl::IndirectBranch => has_indirect_jump = true,
                FlowControl::IndirectCall => self.found.push(instruction.next_ip()),
                FlowControl::Call => {
                    self.found.push(instruction.next_ip());
                    self.found.push(instruction.near_branch_target());
                }
                FlowControl::ConditionalBranch
                | FlowControl::UnconditionalBranch
                | FlowControl::XbeginXabortXend => {
                    self.found.push(instruction.near_branch_target());
                }
                FlowControl::Interrupt => self.found.push(instruction.next_ip()),
                _ => {}
            }
            for named in named(&instruction) {
                if self.image.is_code(named) {
                    // The address of a label, or of a function.
                    self.found.push(named);
                    user.code.push(named);
                }
                if self.may_be_data(named) {
                    self.named.insert(named);
                    user.data.push(named);
                }
            }
        }
        if has_indirect_jump {
            self.users.push(user);
        }
    }

    /// Linkers may put constant data next to the code (GNU ld before 2.31 and gold always do): what
    /// is executable, but in no function, may be data.
    fn may_be_data(&self, at: u64) -> bool {
        let is_code = self.image.is_code(at);
        self.image.is_data(at) || (is_code && self.functions.covering(at).is_none())
    }

    fn finish(mut self) -> Targets {
        let mut with_tables = Vec::new();
        for user in std::mem::take(&mut self.users) {
            let before = self.found.len();
            let mut data = user.data.clone();
            data.sort_unstable();
            data.dedup();
            for at in data {
                self.read_table(at, &user);
            }
            let range = user.function.start + 1..user.function.end;
            if self.found[before..].iter().any(|at| range.contains(at)) {
                with_tables.push(user.function.start);
            }
        }
        self.found.retain(|at| self.image.is_code(*at));
        self.found.sort_unstable();
        self.found.dedup();
        with_tables.sort_unstable();
        self.unreadable.sort_unstable();
        Targets {
            addresses: self.found,
            with_tables,
            unreadable: self.unreadable,
            of_long_tables: self.of_long_tables.into_iter().collect(),
        }
    }

    /// Takes what is at an address for a table: of addresses, or of distances from the table
    /// itself or from a label of the function.
    fn read_table(&mut self, at: u64, user: &TableUser) {
        let after = self.named.range(at + 1..).next();
        let Some(bytes) = self.image.from(at) else {
            return;
        };
        let length = after.map_or(bytes.len(), |end| (end - at) as usize);
        let bytes = &bytes[..length.min(bytes.len())];
        let (image, found) = (self.image, self.found.len());
        let mut is_whole = self.read_entries(bytes, u64::from_le_bytes, |to| image.is_code(to));
        let distance = |four: [u8; 4]| i64::from(i32::from_le_bytes(four));
        let target = |four| at.wrapping_add_signed(distance(four));
        is_whole &= self.read_entries(bytes, target, |to| image.is_code(to));
        let labels = user.code.iter().filter(|l| user.function.contains(l));
        for label in labels.take(MAX_BASES) {
            let target = |four| label.wrapping_add_signed(distance(four));
            is_whole &= self.read_entries(bytes, target, |to| user.function.contains(&to));
        }
        if !is_whole {
            let into = self.found[found..].iter();
            let into = into.filter_map(|to| Some(self.functions.covering(*to)?.range.start));
            self.of_long_tables.extend(into);
            self.of_long_tables.insert(user.function.start);
        }
    }

    /// Reads entries up to the first that is none; false: there are too many. Targets outside of
    /// all functions do not matter.
    fn read_entries<const BYTES: usize>(
        &mut self,
        table: &[u8],
        target: impl Fn([u8; BYTES]) -> u64,
        is_entry: impl Fn(u64) -> bool,
    ) -> bool {
        let entries = table.chunks_exact(BYTES).map(<[u8; BYTES]>::try_from);
        let mut entries = entries.flatten();
        for entry in entries.by_ref().take(MAX_ENTRIES) {
            let to = target(entry);
            if !is_entry(to) {
                return true;
            }
            if self.functions.covering(to).is_some() {
                self.found.push(to);
            }
        }
        entries.next().is_none()
    }
}

/// Addresses that an instruction names: relative to itself, or in position-dependent programs as a
/// constant.
fn named(instruction: &Instruction) -> impl Iterator<Item = u64> {
    let memory = if instruction.is_ip_rel_memory_operand() {
        Some(instruction.ip_rel_memory_address())
    } else {
        let has_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
        let displacement = instruction.memory_displacement64();
        (has_memory && instruction.memory_base() == Register::None && displacement != 0)
            .then_some(displacement)
    };
    let constant = instruction.op_kinds().enumerate().find_map(|(i, kind)| {
        let is_address = matches!(
            kind,
            OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64
        );
        is_address.then(|| instruction.immediate(i as u32))
    });
    [memory, constant].into_iter().flatten()
}
