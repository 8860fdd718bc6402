//! Code that stands in for a patched site: it calls the runtime, executes what the patch has
//! displaced, and goes back.
//!
//! Every register is kept: gcc's -fipa-ra lets callers keep values in registers that they know
//! their callee leaves alone. At an entry and at a return nothing lives below the stack pointer;
//! at a jump the red zone may (x86-64 ABI, section 3.2.2).

use iced_x86::{Code, FlowControl, Instruction};

use crate::fast_count::FastCount;
use crate::relocate::{encoded, far_jump, is_call, moved, Unpatchable};
use crate::runtime;
use crate::sites::Site;
use crate::table::LEAVES_BY_JUMP;

/// Where the code of a stub finds the rest.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// The runtime's code.
    pub runtime: u64,
    /// The table.
    pub table: u64,
    /// The function's number in the table.
    pub function: u32,
    /// How its calls are counted where that is all; `None` = by the runtime.
    pub fast: Option<FastCount>,
}

/// The code for one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stub {
    /// To be placed at the address that it was made for.
    pub code: Vec<u8>,
    /// Addresses of the displaced instructions: in the function, and in the stub.
    pub moved: Vec<(u64, u64)>,
}

/// Registers that a function may change, and rax, whose lower half holds the flags.
const SAVE: [u8; 18] = [
    0x50, // push rax
    0x9f, // lahf
    0x0f, 0x90, 0xc0, // seto al
    0x50, // push rax
    0x51, 0x52, 0x56, 0x57, // push rcx, rdx, rsi, rdi
    0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53, // push r8, r9, r10, r11
];
const SAVED_BYTES: u8 = 80;
const RESTORE: [u8; 17] = [
    0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, // pop r11, r10, r9, r8
    0x5f, 0x5e, 0x5a, 0x59, // pop rdi, rsi, rdx, rcx
    0x58, // pop rax
    0x04, 0x7f, // add al, 127: the overflow flag
    0x9e, // sahf
    0x58, // pop rax
];
const RED_ZONE: u8 = 128;
/// lea rsp, [rsp-128]; lea rsp, [rsp+128]
const SKIP_RED_ZONE: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
const UNSKIP_RED_ZONE: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0];

impl Context {
    /// A call of the runtime from `at`; the stack pointer is at the return address.
    /// The runtime finds the registers where they are saved here.
    fn call(&self, entry: u64, at: u64, keeps_red_zone: bool) -> Result<Vec<u8>, Unpatchable> {
        let mut code = Vec::new();
        let function = match keeps_red_zone {
            true => self.function | LEAVES_BY_JUMP,
            false => self.function,
        };
        if keeps_red_zone {
            code.extend(SKIP_RED_ZONE);
        }
        code.extend(SAVE);
        code.extend([0x48, 0xbf]); // mov rdi, table
        code.extend(self.table.to_le_bytes());
        code.push(0xbe); // mov esi, function
        code.extend(function.to_le_bytes());
        let depth = u32::from(SAVED_BYTES) + if keeps_red_zone { RED_ZONE.into() } else { 0 };
        code.extend([0x48, 0x8d, 0x94, 0x24]); // lea rdx, [rsp+depth]
        code.extend(depth.to_le_bytes());
        let call = Instruction::with_branch(Code::Call_rel32_64, self.runtime + entry);
        let call = call.map_err(|_| Unpatchable::Immovable)?;
        code.extend(encoded(&call, at + code.len() as u64)?);
        code.extend(RESTORE);
        if keeps_red_zone {
            code.extend(UNSKIP_RED_ZONE);
        }
        Ok(code)
    }

    /// What is done at the entry, at address `to`.
    fn enter(&self, to: u64) -> Result<Vec<u8>, Unpatchable> {
        let call = self.call(runtime::enter(), to, false)?;
        let fast = self.fast;
        let fast = fast.and_then(|fast| fast.code(self.table, self.function, call.len()));
        let Some(mut code) = fast else {
            return Ok(call);
        };
        // The same, where it is now.
        let call = self.call(runtime::enter(), to + code.len() as u64, false)?;
        code.extend(call);
        Ok(code)
    }

    /// The code that replaces a site, at address `to`.
    ///
    /// # Errors
    /// An instruction has no form that works there.
    pub fn stub(&self, site: &Site, to: u64) -> Result<Stub, Unpatchable> {
        let mut stub = Stub {
            code: Vec::new(),
            moved: Vec::new(),
        };
        if site.is_entry {
            stub.code = self.enter(to)?;
        }
        let mut is_open = true;
        for step in &site.steps {
            let at = to + stub.code.len() as u64;
            let instruction = &step.instruction;
            stub.moved.push((instruction.ip(), at));
            let code = match step.is_exit {
                true => self.exit(instruction, at)?,
                false => moved(instruction, at)?,
            };
            stub.code.extend(code);
            is_open = !is_call(instruction)
                && !matches!(
                    instruction.flow_control(),
                    FlowControl::Return
                        | FlowControl::UnconditionalBranch
                        | FlowControl::IndirectBranch
                );
        }
        if is_open {
            stub.code.extend(far_jump(site.end()));
        }
        Ok(stub)
    }

    /// An instruction that leaves the function, behind a call of the runtime.
    fn exit(&self, instruction: &Instruction, at: u64) -> Result<Vec<u8>, Unpatchable> {
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => self.conditional_exit(instruction, at),
            flow => {
                let keeps_red_zone = flow != FlowControl::Return;
                let mut code = self.call(runtime::exit(), at, keeps_red_zone)?;
                code.extend(moved(instruction, at + code.len() as u64)?);
                Ok(code)
            }
        }
    }

    /// `jcc leave; jmp stay; leave: ...; jmp target; stay:`
    fn conditional_exit(&self, branch: &Instruction, at: u64) -> Result<Vec<u8>, Unpatchable> {
        const BRANCH_BYTES: u64 = 6;
        const JUMP_BYTES: u64 = 5;
        let leave = at + BRANCH_BYTES + JUMP_BYTES;
        let mut taken = *branch;
        taken.as_near_branch();
        taken.set_near_branch64(leave);
        let mut code = encoded(&taken, at)?;
        let mut exit = self.call(runtime::exit(), leave, true)?;
        exit.extend(far_jump(branch.near_branch_target()));
        code.push(0xe9);
        code.extend((exit.len() as u32).to_le_bytes());
        code.extend(exit);
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::Step;
    use iced_x86::{Decoder, DecoderOptions, Register};

    const AT: u64 = 0x7f00_0000_1000;
    const TO: u64 = 0x7f00_0010_0000;
    const CONTEXT: Context = Context {
        runtime: TO - 0x1_0000,
        table: 0x7e00_0000_0000,
        function: 9,
        fast: None,
    };

    fn site(code: &[u8], is_entry: bool) -> Site {
        let all = Decoder::with_ip(64, code, AT, DecoderOptions::NONE).into_iter();
        let steps = all.map(|instruction| Step {
            instruction,
            is_exit: instruction.flow_control() != FlowControl::Next,
        });
        Site {
            at: AT,
            is_entry,
            steps: steps.collect(),
        }
    }

    fn decoded(stub: &Stub) -> Vec<Instruction> {
        Decoder::with_ip(64, &stub.code, TO, DecoderOptions::NONE)
            .into_iter()
            .collect()
    }

    #[test]
    fn every_push_has_its_pop() {
        let stub = CONTEXT.stub(&site(&[0x5b, 0xc3], true), TO).unwrap();
        let mut depth = 0;
        for instruction in decoded(&stub) {
            depth += instruction.stack_pointer_increment();
            if instruction.flow_control() == FlowControl::Call {
                depth += 8; // it returns
            }
        }
        // pop rbx and the return of the function itself.
        assert_eq!(depth, 16);
    }

    #[test]
    fn a_count_that_is_done_goes_on_behind_the_call() {
        let fast = Context {
            fast: FastCount::of(1024, 0x2d0),
            ..CONTEXT
        };
        let whole = fast.stub(&site(&[0x90, 0xc3], true), TO).unwrap();
        let all = decoded(&whole);
        let jump = all.iter().find(|i| i.code() == Code::Jmp_rel32_64).unwrap();
        // There is the first displaced instruction.
        assert_eq!(jump.near_branch_target(), whole.moved[0].1);
        let call = all.iter().find(|i| i.flow_control() == FlowControl::Call);
        let target = call.unwrap().near_branch_target();
        assert_eq!(target, CONTEXT.runtime + runtime::enter());
    }

    #[test]
    fn runtime_is_called_at_entry_and_exit() {
        let stub = CONTEXT.stub(&site(&[0x90, 0xc3], true), TO).unwrap();
        let all = decoded(&stub);
        let calls = all.iter().filter(|i| i.flow_control() == FlowControl::Call);
        let targets: Vec<u64> = calls.map(Instruction::near_branch_target).collect();
        let runtime = CONTEXT.runtime;
        assert_eq!(
            targets,
            [runtime + runtime::enter(), runtime + runtime::exit()]
        );
        assert_eq!(all.last().unwrap().flow_control(), FlowControl::Return);
        // A thread at the return goes on before the call of the runtime.
        assert!(stub.moved[1].1 < TO + stub.code.len() as u64 - 40);
    }

    #[test]
    fn exits_by_a_jump_are_told_from_returns() {
        let numbers = |code: &[u8]| {
            let stub = CONTEXT.stub(&site(code, false), TO).unwrap();
            let all = decoded(&stub).into_iter();
            let number =
                all.filter(|i| i.code() == Code::Mov_r32_imm32 && i.immediate32() & 9 == 9);
            number.map(|i| i.immediate32()).collect::<Vec<u32>>()
        };
        assert_eq!(numbers(&[0x90, 0xc3]), [9]);
        // jmp +0x100
        assert_eq!(numbers(&[0xe9, 0, 1, 0, 0]), [9 | LEAVES_BY_JUMP]);
    }

    #[test]
    fn arguments_are_saved_where_the_runtime_reads_them() {
        // runtime.c: rdi at rsp - 48, rsi at - 40, rdx at - 32, rax at - 8.
        let saves = Decoder::with_ip(64, &SAVE, AT, DecoderOptions::NONE).into_iter();
        let pushes = saves.filter(|i| i.code() == Code::Push_r64);
        let order: Vec<Register> = pushes.map(|i| i.op0_register()).collect();
        let at = |register| order.iter().rposition(|r| *r == register).unwrap() * 8 + 8;
        assert_eq!((at(Register::RDX), at(Register::RSI)), (32, 40));
        assert_eq!(at(Register::RDI), 48);
        assert_eq!(order[0], Register::RAX);
    }

    #[test]
    fn conditional_exit_goes_on_behind_itself() {
        // je +0x100 (6 bytes)
        let stub = CONTEXT
            .stub(&site(&[0x0f, 0x84, 0, 1, 0, 0], false), TO)
            .unwrap();
        let all = decoded(&stub);
        let stay = all[1].near_branch_target();
        let rest = &stub.code[(stay - TO) as usize..];
        assert_eq!(rest, far_jump(AT + 6));
        assert_eq!(all[0].near_branch_target(), all[1].next_ip());
    }
}
