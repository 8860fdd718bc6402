//! Code of a process, of whatever kind, by its bytes: what system calls are made with, and what
//! signal handlers return to.

use crate::call::{Gadgets, SIGRETURN};
use crate::memory::{Memory, Region};

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const RETURN: u8 = 0xc3;
/// Bytes from a system call to the return behind it: a look at the result lies between.
const MAX_BEFORE_RETURN: usize = 16;
/// `cmp rax, -4095`, with which C libraries look for errors.
const LOOK_AT_RESULT: [u8; 3] = [0x48, 0x3d, 0x01];
/// `mov eax, SYS_rt_sigreturn; syscall`: the short form of [`SIGRETURN`].
const SHORT_SIGRETURN: [u8; 7] = [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// Executable bytes that are searched.
const MAX_BYTES: u64 = 256 << 20;

/// What is found in executable memory.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub gadgets: Gadgets,
    /// Where signal handlers return to.
    pub signal_returns: Vec<u64>,
}

/// Calls `look` with the address and bytes of all code, as far as it is not too much: small regions
/// first, which the C library's code is.
fn search(memory: &Memory, regions: &[Region], mut look: impl FnMut(u64, &[u8])) {
    let mut code: Vec<_> = regions.iter().filter(|r| r.executable).collect();
    code.sort_by_key(|r| (r.hi - r.lo, r.lo));
    let mut searched = 0;
    for region in code {
        let bytes = region.hi - region.lo;
        searched += bytes;
        if searched > MAX_BYTES {
            break;
        }
        let mut code = vec![0; bytes as usize];
        // The page of old system calls cannot be read.
        if memory.read(region.lo, &mut code).is_ok() {
            look(region.lo, &code);
        }
    }
}

/// Searches all code; `None` = there are no such gadgets.
pub(crate) fn find(memory: &Memory, regions: &[Region]) -> Option<Found> {
    let (mut syscall, mut sigreturn) = (None, None);
    let mut signal_returns = Vec::new();
    search(memory, regions, |at, code| {
        let address = |i: usize| at + i as u64;
        syscall = syscall.or_else(|| call_with_return(code).map(address));
        sigreturn = sigreturn.or_else(|| sigreturn_in(code).map(address));
        signal_returns.extend(returns_in(code).map(address));
    });
    Some(Found {
        gadgets: Gadgets {
            syscall: syscall?,
            sigreturn: sigreturn?,
        },
        signal_returns,
    })
}

/// What signal handlers return to, of whichever library.
pub(crate) fn signal_returns(memory: &Memory, regions: &[Region]) -> Vec<u64> {
    let mut all = Vec::new();
    search(memory, regions, |at, code| {
        all.extend(returns_in(code).map(|i| at + i as u64));
    });
    all
}

fn sigreturn_in(code: &[u8]) -> Option<usize> {
    system_calls(code).find_map(|call| begin(code, call, &SIGRETURN))
}

fn returns_in(code: &[u8]) -> impl Iterator<Item = usize> + '_ {
    system_calls(code).filter_map(|call| {
        let forms = [&SIGRETURN[..], &SHORT_SIGRETURN];
        forms.iter().find_map(|form| begin(code, call, form))
    })
}

/// Where `wanted` begins, if it ends with the system call at `call`.
fn begin(code: &[u8], call: usize, wanted: &[u8]) -> Option<usize> {
    let begin = (call + SYSCALL.len()).checked_sub(wanted.len())?;
    code[begin..].starts_with(wanted).then_some(begin)
}

/// Where system calls are. A server has tens of MB of code, which is searched several times: most
/// of it is left out by a search for one byte.
fn system_calls(code: &[u8]) -> impl Iterator<Item = usize> + '_ {
    const CHUNK: usize = 64;
    let chunks = code.chunks(CHUNK).enumerate();
    let likely = chunks.filter(|(_, chunk)| chunk.contains(&SYSCALL[1]));
    likely.flat_map(move |(n, chunk)| {
        let seconds = n * CHUNK..n * CHUNK + chunk.len();
        let calls = seconds.filter(|&i| i > 0 && code[i - 1..=i] == SYSCALL);
        calls.map(|i| i - 1)
    })
}

/// A system call behind which the function returns, without a change of the stack.
fn call_with_return(code: &[u8]) -> Option<usize> {
    system_calls(code).find(|&i| {
        let Some(rest) = code.get(i + 2..i + 2 + MAX_BEFORE_RETURN) else {
            return false;
        };
        rest[0] == RETURN
            || (rest.starts_with(&LOOK_AT_RESULT) && rest[6] == 0x73 && rest[8] == RETURN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_signal_return_are_found() {
        let code = [&[0x90][..], &SIGRETURN, &[0xcc], &SHORT_SIGRETURN].concat();
        assert_eq!(returns_in(&code).collect::<Vec<_>>(), [1, 11]);
    }

    #[test]
    fn system_calls_across_chunks_are_found() {
        for at in [0, 62, 63, 64, 126] {
            let mut code = [0x90; 128];
            code[at..at + 2].copy_from_slice(&SYSCALL);
            assert_eq!(system_calls(&code).collect::<Vec<_>>(), [at]);
        }
    }

    #[test]
    fn system_call_needs_a_return_behind_it() {
        let mut code = vec![0x0f, 0x05, 0x90, 0x0f, 0x05, 0xc3];
        code.extend([0xcc; 16]);
        assert_eq!(call_with_return(&code), Some(3));
        assert_eq!(call_with_return(&code[..6]), None);
    }
}
