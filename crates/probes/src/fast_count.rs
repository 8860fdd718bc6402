//! The usual case of a counter, without a call of the runtime: the thread has the column that it looks
//! at first, and the function counts into one row that has no timer and no gate.
//!
//! It changes four registers only and adds by one instruction, so that a signal handler sees the
//! count before or after, and needs no mark that a probe runs.

use crate::table::{
    column_at, column_bytes, function_at, keys_at, row_at, value_at, ColumnHead, Row, Value, ROWS,
};
use std::mem::offset_of;

/// What a table has in common for all functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastCount {
    columns: u64,
    tid_offset: i32,
}

/// Bytes of the code at most.
pub const FAST_COUNT_BYTES: u64 = 160;

/// Registers that it changes, and the flags.
const SAVE: [u8; 8] = [
    0x50, // push rax
    0x9f, // lahf
    0x0f, 0x90, 0xc0, // seto al
    0x50, // push rax
    0x51, 0x52, // push rcx, rdx
];
const RESTORE: [u8; 7] = [
    0x5a, 0x59, // pop rdx, rcx
    0x58, // pop rax
    0x04, 0x7f, // add al, 127: the overflow flag
    0x9e, // sahf
    0x58, // pop rax
];

/// Code whose conditional jumps lead behind its end.
#[derive(Default)]
struct Checks {
    code: Vec<u8>,
    /// Places of distances of one byte.
    jumps: Vec<usize>,
}

impl Checks {
    /// An instruction that ends with a distance or a number of 32 bits.
    fn with(&mut self, instruction: &[u8], number: u32) {
        self.code.extend(instruction);
        self.code.extend(number.to_le_bytes());
    }

    fn unless(&mut self, jump: u8) {
        self.code.extend([jump, 0]);
        self.jumps.push(self.code.len() - 1);
    }
}

impl FastCount {
    /// Of a table; `None` = its numbers do not fit into the instructions.
    pub fn of(columns: u64, tid_offset: i64) -> Option<Self> {
        let tid_offset = i32::try_from(tid_offset).ok()?;
        let fits = columns.is_power_of_two() && columns > 1 && column_at(columns, 0) < 1 << 30;
        fits.then_some(Self {
            columns,
            tid_offset,
        })
    }

    /// The code of a function: it counts and jumps over the next `rest` bytes, or goes on there as
    /// if nothing had happened. `None` = it has no form.
    pub(crate) fn code(self, table: u64, function: u32, rest: usize) -> Option<Vec<u8>> {
        const JNE: u8 = 0x75;
        const JAE: u8 = 0x73;
        let near = |offset: u64| u32::try_from(offset).ok().filter(|at| *at < 1 << 31);
        let columns = column_at(self.columns, 0);
        let tid = offset_of!(ColumnHead, tid) as u64;
        let gates = offset_of!(Row, gates) as u64;
        let mut to = Checks::default();
        to.code.extend(SAVE);
        to.code.extend([0x48, 0xb9]); // mov rcx, table
        to.code.extend(table.to_le_bytes());
        to.with(&[0x64, 0x48, 0x8b, 0x04, 0x25], 0); // mov rax, fs:[0]
        to.code.extend([0x48, 0xba]); // mov rdx, the multiplier of the hash
        to.code.extend(0x9e37_79b9_7f4a_7c15_u64.to_le_bytes());
        to.code.extend([0x48, 0x0f, 0xaf, 0xd0]); // imul rdx, rax
        let shift = 64 - self.columns.trailing_zeros() as u8;
        to.code.extend([0x48, 0xc1, 0xea, shift]); // shr rdx, shift
        to.with(&[0x48, 0x39, 0x84, 0xd1], near(keys_at())?); // cmp [rcx+rdx*8+keys], rax
        to.unless(JNE);
        to.with(&[0x48, 0x69, 0xd2], near(column_bytes())?); // imul rdx, rdx, column_bytes
        to.code.extend([0x48, 0x01, 0xca]); // add rdx, rcx
        to.with(&[0x8b, 0x80], self.tid_offset as u32); // mov eax, [rax+tid_offset]
        to.with(&[0x39, 0x82], near(columns + tid)?); // cmp [rdx+columns+tid], eax
        to.unless(JNE);
        to.with(&[0x8b, 0x81], near(function_at(function))?); // mov eax, [rcx+rows]: two rows
                                                              // The second one is none: what is left is the first, with TIMED too large.
        to.with(&[0x05], 0x1_0000); // add eax, 0x10000
        to.with(&[0x3d], ROWS as u32); // cmp eax, ROWS
        to.unless(JAE);
        const { assert!(size_of::<Row>() == 64 && size_of::<Value>() == 64) };
        to.code.extend([0xc1, 0xe0, 6]); // shl eax, 6
                                         // Gates and bytes are side by side: cmp word [rcx+rax+gates], 0
        to.with(&[0x66, 0x83, 0xbc, 0x01], near(row_at(0) + gates)?);
        to.code.push(0);
        to.unless(JNE);
        to.with(&[0x48, 0xff, 0x84, 0x02], near(columns + value_at(0))?); // inc qword [...]
        to.code.extend(RESTORE);
        let over = u32::try_from(RESTORE.len() + rest).ok()?;
        to.with(&[0xe9], over); // jmp over the rest
        let end = to.code.len();
        for jump in to.jumps {
            to.code[jump] = u8::try_from(end - jump - 1).ok()?;
        }
        to.code.extend(RESTORE);
        Some(to.code)
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};

    use super::*;

    const AT: u64 = 0x1000;

    fn decoded(rest: usize) -> Vec<Instruction> {
        let fast = FastCount::of(1024, 0x2d0).unwrap();
        let code = fast.code(0x7e00_0000_0000, 9, rest).unwrap();
        assert!(code.len() as u64 <= FAST_COUNT_BYTES);
        let all = Decoder::with_ip(64, &code, AT, DecoderOptions::NONE);
        all.into_iter().collect()
    }

    #[test]
    fn both_ways_out_leave_the_stack_as_it_was() {
        let all = decoded(100);
        let end = all.last().unwrap().next_ip();
        let jump = all
            .iter()
            .position(|i| i.code() == Code::Jmp_rel32_64)
            .unwrap();
        assert_eq!(all[jump].near_branch_target(), end + 100);
        let depth = |from: &[Instruction]| -> i32 {
            from.iter().map(Instruction::stack_pointer_increment).sum()
        };
        assert_eq!(depth(&all[..jump]), 0);
        let conditional = all
            .iter()
            .enumerate()
            .filter(|(_, i)| i.flow_control() == FlowControl::ConditionalBranch);
        let mut n = 0;
        for (at, branch) in conditional {
            // Into the rest of it, which restores.
            assert_eq!(branch.near_branch_target(), all[jump].next_ip());
            assert_eq!(depth(&all[..at]) + depth(&all[jump + 1..]), 0);
            n += 1;
        }
        assert_eq!(n, 4);
    }

    #[test]
    fn it_writes_to_memory_once() {
        let is_store = |i: &&Instruction| i.code() == Code::Inc_rm64;
        let all = decoded(0);
        let stores: Vec<&Instruction> = all.iter().filter(is_store).collect();
        assert_eq!(stores.len(), 1);
        let at = column_at(1024, 0) + value_at(0);
        assert_eq!(stores[0].memory_displacement64(), at);
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(FastCount::of(1024, 1 << 40), None);
        assert_eq!(FastCount::of(1000, 8), None);
        assert_eq!(FastCount::of(1 << 40, 8), None);
        assert!(FastCount::of(1 << 17, -8).is_some());
    }
}
