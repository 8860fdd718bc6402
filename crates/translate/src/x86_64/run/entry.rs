//! From translated code to the translator and back, and the address that hooks return to.
//!
//! Everything here leaves the red zone of the program's stack alone. The frame begins 256 bytes below the stack
//! pointer that [`super::super::regs::Slot::Stack`] keeps: 128 of red zone, 16 words of registers.

use core::arch::global_asm;
use core::sync::atomic::AtomicU64;

use super::super::regs::Slot;
use super::dispatch;

/// The registers of the program while the translator works for it.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rax: u64,
    pub flags: u64,
}

/// Bytes between the frame and the stack pointer of the program.
pub const FRAME_BELOW: u64 = 128 + size_of::<Frame>() as u64;
/// Of the vector registers, which lie below the frame, aligned to 16.
pub const VECTORS_BYTES: u64 = 256;

/// Stubs of the first region.
pub static ENTER: AtomicU64 = AtomicU64::new(0);
pub static TAIL: AtomicU64 = AtomicU64::new(0);
/// Of the area of xsave (bytes).
pub static XSAVE_BYTES: AtomicU64 = AtomicU64::new(4096);

extern "C" {
    pub fn cv_tr_enter();
    pub fn cv_tr_slow();
    pub static cv_tr_slow_saved: u8;
    pub static cv_tr_slow_vectors_saved: u8;
    pub static cv_tr_slow_vectors_back: u8;
    pub static cv_tr_slow_last: u8;
    pub static cv_tr_slow_end: u8;
}

global_asm!(
    ".text",
    ".balign 16",
    ".globl cv_tr_enter",
    ".hidden cv_tr_enter",
    ".type cv_tr_enter, @function",
    "cv_tr_enter:",
    "jmp qword ptr [rip + {enter}]",
    ".size cv_tr_enter, . - cv_tr_enter",
    ".balign 16",
    ".globl cv_tr_slow",
    ".hidden cv_tr_slow",
    ".type cv_tr_slow, @function",
    "cv_tr_slow:",
    "lea rsp, [rsp - 128]",
    "pushfq",
    "push rax",
    "push rcx",
    "push rdx",
    "push rbx",
    "push rbp",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    ".globl cv_tr_slow_saved",
    ".hidden cv_tr_slow_saved",
    "cv_tr_slow_saved:",
    "cld",
    "mov rbx, rsp",
    "sub rsp, 256",
    "and rsp, -16",
    "mov rbp, rsp",
    "movups [rbp], xmm0",
    "movups [rbp + 16], xmm1",
    "movups [rbp + 32], xmm2",
    "movups [rbp + 48], xmm3",
    "movups [rbp + 64], xmm4",
    "movups [rbp + 80], xmm5",
    "movups [rbp + 96], xmm6",
    "movups [rbp + 112], xmm7",
    "movups [rbp + 128], xmm8",
    "movups [rbp + 144], xmm9",
    "movups [rbp + 160], xmm10",
    "movups [rbp + 176], xmm11",
    "movups [rbp + 192], xmm12",
    "movups [rbp + 208], xmm13",
    "movups [rbp + 224], xmm14",
    "movups [rbp + 240], xmm15",
    ".globl cv_tr_slow_vectors_saved",
    ".hidden cv_tr_slow_vectors_saved",
    "cv_tr_slow_vectors_saved:",
    "mov r12, qword ptr [rip + cv_tr@GOTTPOFF]",
    "add r12, qword ptr fs:[0]",
    "mov qword ptr [r12 + {busy}], 1",
    // All signals are blocked before the stack is changed: a handler's frame would lie on it, where the translator begins
    // again when the handler has a section of its own.
    "call {begin}",
    // The translator's own stack: the program's may be small.
    "mov rax, [r12 + {own}]",
    "test rax, rax",
    "jz 2f",
    "mov rsp, rax",
    "2:",
    "mov rdi, rbx",
    "call {dispatch}",
    "mov rsp, rbp",
    "test eax, eax",
    "jnz 3f",
    "call {end}",
    "jmp 4f",
    // The section's record ends: what is called may use any register.
    "3:",
    "mov rsp, rbp",
    "sub rsp, qword ptr [rip + {xsave_bytes}]",
    "and rsp, -64",
    "mov r13, rsp",
    "xor eax, eax",
    "lea rdi, [r13 + 512]",
    "mov ecx, 8",
    "rep stosq",
    "mov eax, -1",
    "mov edx, -1",
    "xsave64 [r13]",
    "call {finish}",
    "mov eax, -1",
    "mov edx, -1",
    "xrstor64 [r13]",
    "mov rsp, rbp",
    "4:",
    "mov qword ptr [r12 + {busy}], 0",
    "movups xmm0, [rbp]",
    "movups xmm1, [rbp + 16]",
    "movups xmm2, [rbp + 32]",
    "movups xmm3, [rbp + 48]",
    "movups xmm4, [rbp + 64]",
    "movups xmm5, [rbp + 80]",
    "movups xmm6, [rbp + 96]",
    "movups xmm7, [rbp + 112]",
    "movups xmm8, [rbp + 128]",
    "movups xmm9, [rbp + 144]",
    "movups xmm10, [rbp + 160]",
    "movups xmm11, [rbp + 176]",
    "movups xmm12, [rbp + 192]",
    "movups xmm13, [rbp + 208]",
    "movups xmm14, [rbp + 224]",
    "movups xmm15, [rbp + 240]",
    ".globl cv_tr_slow_vectors_back",
    ".hidden cv_tr_slow_vectors_back",
    "cv_tr_slow_vectors_back:",
    "mov rsp, rbx",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rbp",
    "pop rbx",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "popfq",
    "lea rsp, [rsp + 128]",
    ".globl cv_tr_slow_last",
    ".hidden cv_tr_slow_last",
    "cv_tr_slow_last:",
    "jmp qword ptr [rip + {tail}]",
    // A panic comes here: as much as is needed to go on natively is in the frame.
    ".globl cv_tr_slow_abandon",
    ".hidden cv_tr_slow_abandon",
    "cv_tr_slow_abandon:",
    "mov r12, qword ptr [rip + cv_tr@GOTTPOFF]",
    "add r12, qword ptr fs:[0]",
    "mov rbx, [r12 + {stack}]",
    "sub rbx, 256",
    "lea rbp, [rbx - 256]",
    "and rbp, -16",
    "jmp 3b",
    ".globl cv_tr_slow_end",
    ".hidden cv_tr_slow_end",
    "cv_tr_slow_end:",
    ".size cv_tr_slow, . - cv_tr_slow",
    enter = sym ENTER,
    tail = sym TAIL,
    xsave_bytes = sym XSAVE_BYTES,
    begin = sym dispatch::block_signals,
    end = sym dispatch::restore_signals,
    dispatch = sym dispatch::dispatch,
    finish = sym dispatch::finish,
    busy = const Slot::Busy as i32,
    own = const Slot::Own as i32,
    stack = const Slot::Stack as i32,
);
