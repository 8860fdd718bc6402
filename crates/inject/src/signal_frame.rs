//! The signal frame that `rt_sigreturn` restores a thread from
//! (arch/x86/include/uapi/asm/sigcontext.h of the kernel).

use libc::user_regs_struct;

/// Of struct ucontext: flags, link and the alternate stack; the registers; the mask.
const REGISTERS_AT: usize = 40;
const FLOATING_POINT_AT: usize = REGISTERS_AT + 23 * 8;
const MASK_AT: usize = REGISTERS_AT + 32 * 8;
const CONTEXT_BYTES: usize = MASK_AT + 8;

/// UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS.
const FLAGS: u64 = 7;
/// No valid mode of an alternate stack: the one that is set stays.
const KEEP_STACK: u32 = 0x40;

/// Of the extended state: where the kernel looks for its size, and what it wants to find there.
const SOFTWARE_AT: usize = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
const EXTENDED_ALIGNMENT: u64 = 64;

/// A frame that ends below `top`: its address and bytes. A function that is called with the address
/// as its stack pointer returns to `sigreturn`.
pub(crate) fn build(
    top: u64,
    sigreturn: u64,
    registers: &user_regs_struct,
    mask: u64,
    extended: &[u8],
) -> (u64, Vec<u8>) {
    let extended = framed(extended);
    let extended_at = (top - extended.len() as u64) & !(EXTENDED_ALIGNMENT - 1);
    // 8 below a multiple of 16, as after a call.
    let at = ((extended_at - CONTEXT_BYTES as u64 - 8) & !15) - 8;
    let mut context = vec![0u8; CONTEXT_BYTES];
    let mut put = |at: usize, value: u64| {
        context[at..at + 8].copy_from_slice(&value.to_le_bytes());
    };
    put(0, FLAGS);
    put(24, u64::from(KEEP_STACK));
    let r = registers;
    let segments = r.cs & 0xffff | (r.ss & 0xffff) << 48;
    let all = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx,
        r.rax, r.rcx, r.rsp, r.rip, r.eflags, segments,
    ];
    for (i, value) in all.into_iter().enumerate() {
        put(REGISTERS_AT + i * 8, value);
    }
    put(FLOATING_POINT_AT, extended_at);
    put(MASK_AT, mask);
    let mut bytes = sigreturn.to_le_bytes().to_vec();
    bytes.extend(context);
    bytes.resize((extended_at - at) as usize, 0);
    bytes.extend(extended);
    (at, bytes)
}

/// Where the thread was that a signal has interrupted, as (rip, rsp). `words`: the frame, from the
/// address that its handler returns to.
pub(crate) fn interrupted(words: &[u64]) -> Option<(u64, u64)> {
    // Behind the return address.
    const REGISTERS: usize = 1 + REGISTERS_AT / 8;
    const RSP: usize = 15;
    const RIP: usize = 16;
    Some((*words.get(REGISTERS + RIP)?, *words.get(REGISTERS + RSP)?))
}

/// The extended state as signal frames have it.
fn framed(state: &[u8]) -> Vec<u8> {
    let mut bytes = state.to_vec();
    if bytes.len() < SOFTWARE_AT + 48 {
        return bytes; // not as known: the kernel takes the old part of it
    }
    // ptrace puts the mask of what there is where frames have their own description.
    let features: [u8; 8] = bytes[SOFTWARE_AT..SOFTWARE_AT + 8]
        .try_into()
        .unwrap_or_default();
    let size = bytes.len() as u32;
    bytes[SOFTWARE_AT..SOFTWARE_AT + 48].fill(0);
    bytes[SOFTWARE_AT..SOFTWARE_AT + 4].copy_from_slice(&MAGIC_1.to_le_bytes());
    bytes[SOFTWARE_AT + 4..SOFTWARE_AT + 8].copy_from_slice(&(size + 4).to_le_bytes());
    bytes[SOFTWARE_AT + 8..SOFTWARE_AT + 16].copy_from_slice(&features);
    bytes[SOFTWARE_AT + 16..SOFTWARE_AT + 20].copy_from_slice(&size.to_le_bytes());
    bytes.extend(MAGIC_2.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_says_where_its_thread_was() {
        // SAFETY: integers, all of which may be 0.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.rip, registers.rsp) = (0x1111, 0x2222);
        let (_, bytes) = build(0x7000_0000, 0x1234, &registers, 5, &[0; 832]);
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
            .collect();
        assert_eq!(words[0], 0x1234);
        assert_eq!(interrupted(&words), Some((0x1111, 0x2222)));
        assert_eq!(interrupted(&words[..10]), None);
    }

    #[test]
    fn frame_is_aligned_and_ends_below_the_top() {
        // SAFETY: integers, all of which may be 0.
        let registers: user_regs_struct = unsafe { std::mem::zeroed() };
        for top in [0x7000_0000u64, 0x7000_0fff, 0x7000_0013] {
            let (at, bytes) = build(top, 0x1234, &registers, 5, &[0; 832]);
            assert_eq!(at % 16, 8);
            assert!(at + bytes.len() as u64 <= top);
            assert_eq!(bytes[..8], 0x1234u64.to_le_bytes());
            let pointer = &bytes[8 + FLOATING_POINT_AT..][..8];
            let pointer = u64::from_le_bytes(pointer.try_into().unwrap());
            assert_eq!(pointer % 64, 0);
            assert_eq!(bytes.len() as u64 - (pointer - at), 836);
            assert_eq!(bytes[8 + MASK_AT], 5);
        }
    }
}
