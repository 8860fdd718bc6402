//! Code of the process, of whatever kind, that system calls are made with.

use crate::call::{Gadgets, SIGRETURN};
use crate::memory::{Memory, Region};

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const RETURN: u8 = 0xc3;
/// Bytes from a system call to the return behind it: a look at the result lies between.
const MAX_BEFORE_RETURN: usize = 16;
/// `cmp rax, -4095`, with which C libraries look for errors.
const LOOK_AT_RESULT: [u8; 3] = [0x48, 0x3d, 0x01];
/// Executable bytes that are searched: the C library's come early in most programs.
const MAX_BYTES: u64 = 256 << 20;

/// What is found in executable memory.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub gadgets: Gadgets,
    /// Where signal handlers return to.
    pub signal_returns: Vec<u64>,
}

/// Searches all code.
pub(super) fn find(memory: &Memory, regions: &[Region]) -> Option<Found> {
    let mut syscall = None;
    let mut signal_returns = Vec::new();
    let mut searched = 0;
    for region in regions.iter().filter(|r| r.executable) {
        let bytes = region.hi - region.lo;
        searched += bytes;
        if searched > MAX_BYTES {
            break;
        }
        let mut code = vec![0; bytes as usize];
        // The page of old system calls cannot be read.
        if memory.read(region.lo, &mut code).is_err() {
            continue;
        }
        let at = code.windows(SIGRETURN.len()).enumerate();
        let returns = at.filter(|(_, w)| *w == SIGRETURN);
        signal_returns.extend(returns.map(|(i, _)| region.lo + i as u64));
        if syscall.is_none() {
            syscall = call_with_return(&code).map(|i| region.lo + i as u64);
        }
    }
    Some(Found {
        gadgets: Gadgets {
            syscall: syscall?,
            sigreturn: *signal_returns.first()?,
        },
        signal_returns,
    })
}

/// A system call behind which the function returns, without a change of the stack.
fn call_with_return(code: &[u8]) -> Option<usize> {
    let mut calls = code.windows(2).enumerate().filter(|(_, w)| *w == SYSCALL);
    calls.find_map(|(i, _)| {
        let rest = code.get(i + 2..i + 2 + MAX_BEFORE_RETURN)?;
        let returns = rest[0] == RETURN
            || (rest.starts_with(&LOOK_AT_RESULT) && rest[6] == 0x73 && rest[8] == RETURN);
        returns.then_some(i)
    })
}
