//! Where in a function a uprobe of the kernel costs least: on an instruction that it emulates. Any
//! other one is executed in a single step, which costs ten times as much.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

/// Instructions of the head that are looked at.
const HEAD: usize = 8;

/// The instruction that gets the uprobe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UprobeSite {
    /// Its address.
    pub at: u64,
    /// The kernel emulates it.
    pub is_emulated: bool,
}

/// The first emulated instruction of the code that each call passes once: up to the first branch,
/// and before anything that is jumped to. Otherwise the first instruction.
pub fn uprobe_site(code: &[u8], start: u64) -> UprobeSite {
    let decode = || Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter();
    let targets: Vec<u64> = decode().filter_map(|i| target(&i)).collect();
    for instruction in decode().take(HEAD) {
        let at = instruction.ip();
        if instruction.is_invalid() || (at != start && targets.contains(&at)) {
            break;
        }
        if is_emulated(&instruction) {
            return UprobeSite {
                at,
                is_emulated: true,
            };
        }
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
    }
    UprobeSite {
        at: start,
        is_emulated: false,
    }
}

fn target(instruction: &Instruction) -> Option<u64> {
    let is_near = matches!(instruction.op0_kind(), OpKind::NearBranch64);
    is_near.then(|| instruction.near_branch_target())
}

/// As arch/x86/kernel/uprobes.c does (6.x): nops, pushes of a register, near calls and jumps.
fn is_emulated(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Nop => true,
        Mnemonic::Push => matches!(instruction.code(), Code::Push_r64),
        _ => match instruction.flow_control() {
            FlowControl::Call
            | FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch => target(instruction).is_some(),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(code: &[u8]) -> (u64, bool) {
        let site = uprobe_site(code, 0x1000);
        (site.at, site.is_emulated)
    }

    #[test]
    fn the_first_emulated_instruction_before_a_branch_target_is_taken() {
        // push rbx; ret
        assert_eq!(site(&[0x53, 0xc3]), (0x1000, true));
        // xor eax, eax; push rbx; ret
        assert_eq!(site(&[0x31, 0xc0, 0x53, 0xc3]), (0x1002, true));
        // xor eax, eax; jmp 0x1000
        assert_eq!(site(&[0x31, 0xc0, 0xeb, 0xfc]), (0x1002, true));
        // xor eax, eax; dec ecx; nop; jne 0x1002 comes back to dec: before nop
        let a_loop = [0x31, 0xc0, 0xff, 0xc9, 0x90, 0x75, 0xfb, 0xc3];
        assert_eq!(site(&a_loop), (0x1000, false));
        // xor eax, eax; ret
        assert_eq!(site(&[0x31, 0xc0, 0xc3]), (0x1000, false));
        assert_eq!(site(&[]), (0x1000, false));
    }
}
