//! The record of a section where a block was not executed to its end.

use super::super::emit::ExitKind;
use super::super::regs::Slot;
use super::region::Piece;
use super::tables::Exit;
use super::thread::Thread;

const EVENT_SYSCALL: u64 = 2;
const EVENT_PART: u64 = 5;

fn event(kind: u64, argument: u64) -> u64 {
    kind << 56 | argument & 0x00ff_ffff_ffff_ffff
}

fn append(thread: Thread, word: u64) {
    let at = thread.get(Slot::At);
    // SAFETY: the agent leaves CV_TR_SLACK_WORDS behind the limit, and every block looks at the limit or is followed by
    // one that does.
    unsafe { (at as *mut u64).write(word) };
    thread.set(Slot::At, at + 8);
}

/// A block whose words begin at `at` stops after this many instructions.
pub fn cut(thread: Thread, piece: &Piece, at: u64, executed: u16) {
    if executed == 0 {
        return thread.set(Slot::At, at);
    }
    let first = piece
        .words_of
        .partition_point(|(instruction, _)| *instruction < executed);
    let first = piece
        .words_of
        .get(first)
        .map_or(piece.words, |(_, word)| u32::from(*word));
    for word in first..piece.words {
        // SAFETY: words of the block's own record, for which there is room.
        unsafe { ((at + u64::from(word) * 8) as *mut u64).write(0) };
    }
    thread.set(Slot::At, at + u64::from(piece.words) * 8);
    missing(thread, piece, executed);
}

/// The last instructions of the block just before were not executed.
pub fn missing(thread: Thread, piece: &Piece, executed: u16) {
    let missing = piece.instructions.saturating_sub(executed);
    if missing > 0 {
        append(thread, event(EVENT_PART, u64::from(missing)));
    }
}

/// The record at an exit that was taken, whose pointer is in `at`.
pub fn settle(thread: Thread, exit: &Exit) {
    if exit.kind == ExitKind::Limit {
        cut(thread, exit.piece, thread.get(Slot::At), exit.executed);
    }
}

pub fn system_call(thread: Thread, number: u64) {
    append(thread, event(EVENT_SYSCALL, number));
}
