//! Choice of a thread that can run a call: one that is inside neither the allocator nor the loader.
//!
//! The call is dlopen. It allocates, and takes the loader's locks: in a thread that is inside one
//! of the two it would wait for itself. Best is a thread that sleeps in a system call which neither
//! of them ever makes; if there is none after a while, one whose stack shows no trace of them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use libc::user_regs_struct;

use crate::call::sleeps_in;
use crate::dynamic::LoadedObject;
use crate::gadgets::signal_returns;
use crate::memory::{regions, Memory, Region};
use crate::probes::is_cpu_clock;
use crate::process::{is_glibc, Process};
use crate::signal_frame;
use crate::tracee::{stat_fields, threads, Fault, Tracee, STOP_LIMIT};
use convoy_probes::Refusal;

/// How long a thread is looked for.
const LIMIT: Duration = Duration::from_secs(5);
/// How long only sleeping ones will do.
const SLEEPERS_ONLY: Duration = Duration::from_millis(100);
/// Between two looks at all threads.
const PAUSE: Duration = Duration::from_millis(2);
/// Threads that are stopped for a look, each time.
const MOST_THREADS: usize = 64;

/// Words of a stack that are searched for return addresses into the allocator and the loader...
const CALL_WORDS: usize = 256;
/// ... and for a signal handler, which may have interrupted them.
const SIGNAL_WORDS: usize = 4096;

/// System calls in which threads sleep, but never the allocator or the loader.
const SLEEPS: [i64; 17] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_pause,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
];

/// Those of them in which an allocator may pause while another thread has its spin lock, as
/// tcmalloc does.
const PAUSES: [i64; 2] = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep];

/// Functions of the C library that hold locks of the allocator or the loader while they call
/// others.
const HOLDERS: [&str; 5] = ["fork", "_Fork", "dl_iterate_phdr", "dlopen", "dlclose"];

/// What an object defines that puts another allocator in the place of the C library's. Loader and C
/// library find it by its dynamic symbol, which stripping does not remove: an allocator that has
/// none, whatever file it is linked into, is not entered by dlopen.
const ALLOCATOR: [&str; 2] = ["malloc", "__malloc_hook"];

/// Functions that wait in a futex for other threads, and not for a lock.
const WAITS: [&str; 8] = [
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_barrier_wait",
    "pthread_join",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
];

/// Functions whose system calls are those of [`SLEEPS`], and those that let blocked signals in: what
/// a handler interrupts there is neither allocator nor loader, whatever is left on the stack.
const INTERRUPTED: [&str; 17] = [
    "epoll_wait",
    "epoll_pwait",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "accept",
    "accept4",
    "pause",
    "sigsuspend",
    "sigtimedwait",
    "wait4",
    "waitid",
    "recvfrom",
    "recvmsg",
    "pthread_sigmask",
    "sigprocmask",
];

/// Where a thread must not be.
#[derive(Debug)]
pub(crate) struct Places {
    /// The allocator and the loader.
    unsafe_code: Vec<(u64, u64)>,
    /// Functions of [`WAITS`].
    waits: Vec<(u64, u64)>,
    /// Functions of [`INTERRUPTED`].
    interrupted: Vec<(u64, u64)>,
    /// What a signal handler returns to.
    signal_returns: Vec<u64>,
    /// The program has an allocator of its own, which may call anything.
    has_own_allocator: bool,
    /// Its code, if it is a library.
    own_allocator: Vec<(u64, u64)>,
}

impl Places {
    pub fn of(process: &Process, memory: &Memory) -> Self {
        let ranges = |names: &[&str]| -> Vec<(u64, u64)> {
            let all = names.iter().filter_map(|name| process.libc.range(name));
            all.collect()
        };
        let mut unsafe_code = ranges(&HOLDERS);
        unsafe_code.extend(allocator(process));
        let allocators = own_allocators(process, memory);
        let program = fs::metadata(format!("/proc/{}/exe", process.pid));
        let program = program.map_or(0, |m| m.ino());
        let mut own_allocator = Vec::new();
        for region in process.regions.iter().filter(|r| r.executable) {
            let range = (region.lo, region.hi);
            if is_loader(region.file_name()) {
                unsafe_code.push(range);
            } else if allocators.contains(&region.inode) && region.inode != program {
                own_allocator.push(range);
            }
        }
        Self {
            unsafe_code,
            own_allocator,
            waits: ranges(&WAITS),
            interrupted: ranges(&INTERRUPTED),
            signal_returns: signal_returns(memory, &process.regions),
            has_own_allocator: !allocators.is_empty(),
        }
    }

    fn is_unsafe(&self, address: u64) -> bool {
        contains(&self.unsafe_code, address)
    }

    /// The frames of signal handlers that may run: what each has interrupted (instruction and stack
    /// pointer). Frames of handlers that have returned lie in buffers that nobody has filled yet;
    /// of these, those are left out whose stack pointer is not above them. What a handler on an
    /// alternate stack has interrupted is on another one.
    fn handlers<'a>(&'a self, at: &'a Position) -> impl Iterator<Item = (u64, u64)> + 'a {
        let returns = |index: &usize| self.signal_returns.contains(&at.stack[*index]);
        let frames = (0..at.stack.len()).filter(returns);
        frames.filter_map(|index| {
            let frame = at.rsp + 8 * index as u64;
            // Of a frame that reaches beyond what was read nothing is known.
            let (rip, rsp) =
                signal_frame::interrupted(&at.stack[index..]).unwrap_or((0, at.stack_end));
            let is_above = rsp > frame && rsp <= at.stack_end;
            (is_above || is_on_alternate(&at.stack[index..], frame)).then_some((rip, rsp))
        })
    }

    /// No signal handler runs, or each has interrupted other code than the allocator and the
    /// loader. (A server may do all its work in a handler, as some children of PostgreSQL 15.)
    fn may_return_from_handlers(&self, at: &Position) -> bool {
        self.handlers(at).all(|(rip, rsp)| {
            // Of a stack that was not read nothing is known.
            let skipped = rsp.checked_sub(at.rsp).map(|bytes| bytes as usize / 8);
            let calls = skipped.and_then(|skipped| at.stack.get(skipped..));
            let calls = calls.unwrap_or_default();
            let mut nearest = calls.iter().take(CALL_WORDS);
            let is_elsewhere = !calls.is_empty()
                && !self.is_unsafe(rip)
                && !nearest.any(|word| self.is_unsafe(*word));
            !self.has_own_allocator && (contains(&self.interrupted, rip) || is_elsewhere)
        })
    }

    /// It sleeps where neither allocator nor loader ever do.
    fn is_sleeper(&self, at: &Position) -> bool {
        let waits = || {
            let mut top = at.stack.iter().take(64);
            top.any(|word| contains(&self.waits, *word))
        };
        let sleeps = match at.call {
            Some(libc::SYS_futex) => waits(),
            Some(call) if self.has_own_allocator && PAUSES.contains(&call) => false,
            Some(call) => SLEEPS.contains(&call),
            None => false,
        };
        let mut calls = at.stack.iter().take(CALL_WORDS);
        sleeps
            && !calls.any(|word| contains(&self.own_allocator, *word))
            && self.may_return_from_handlers(at)
    }

    /// No trace of allocator or loader.
    fn is_elsewhere(&self, at: &Position) -> bool {
        let calls = at.stack.iter().take(CALL_WORDS);
        !self.is_unsafe(at.rip)
            && !calls.into_iter().any(|word| self.is_unsafe(*word))
            && self.handlers(at).next().is_none()
            && !at.in_restartable_sequence
    }
}

/// Whether a signal frame, from its return address on, lies on the alternate stack that it names:
/// `uc_stack` of the kernel's `struct ucontext`, after flags and link.
fn is_on_alternate(words: &[u64], frame: u64) -> bool {
    let stack = words.get(3).zip(words.get(5));
    stack.is_some_and(|(lo, bytes)| frame.wrapping_sub(*lo) < *bytes)
}

fn is_loader(file: &str) -> bool {
    file.starts_with("ld-") || file.starts_with("ld.so")
}

/// Inodes of the files, but for the C library and the loader, that define an allocator.
fn own_allocators(process: &Process, memory: &Memory) -> Vec<u64> {
    let is_other = |r: &&Region| !is_glibc(r.file_name()) && !is_loader(r.file_name());
    let first = process
        .regions
        .iter()
        .filter(|r| r.offset == 0 && r.inode != 0);
    let defines = |region: &&Region| {
        let object = LoadedObject::at(memory, region);
        object.is_some_and(|o| ALLOCATOR.iter().any(|name| o.address(name).is_some()))
    };
    let all = first.filter(is_other).filter(defines);
    all.map(|region| region.inode).collect()
}

fn contains(ranges: &[(u64, u64)], address: u64) -> bool {
    ranges.iter().any(|(lo, hi)| (*lo..*hi).contains(&address))
}

/// The allocator of glibc is one file, whose functions lie together, static ones between those that
/// are exported.
fn allocator(process: &Process) -> Option<(u64, u64)> {
    const AROUND: u64 = 0x3000;
    let names = [
        "malloc",
        "free",
        "realloc",
        "calloc",
        "malloc_usable_size",
        "mallopt",
    ];
    let ranges: Vec<_> = names.iter().filter_map(|n| process.libc.range(n)).collect();
    let lo = ranges.iter().map(|r| r.0).min()?;
    let hi = ranges.iter().map(|r| r.1).max()?;
    Some((lo - AROUND, hi + AROUND))
}

/// Where a stopped thread is.
#[derive(Debug)]
struct Position {
    rip: u64,
    rsp: u64,
    /// The system call that it sleeps in and that will be restarted.
    call: Option<i64>,
    stack: Vec<u64>,
    /// One past the highest address of the memory that the stack is in.
    stack_end: u64,
    in_restartable_sequence: bool,
    on_own_stack: bool,
}

impl Position {
    fn of(tracee: &Tracee, memory: &Memory, regions: &[Region]) -> Result<Self, Fault> {
        let registers = tracee.registers()?;
        let mut stacks = regions.iter();
        let stack = stacks.find(|r| (r.lo..r.hi).contains(&registers.rsp));
        Ok(Self {
            rip: registers.rip,
            rsp: registers.rsp,
            call: sleeps_in(&registers),
            stack: memory.words(registers.rsp, SIGNAL_WORDS),
            stack_end: stack.map_or(u64::MAX, |r| r.hi),
            in_restartable_sequence: in_restartable_sequence(tracee, memory),
            on_own_stack: is_own_stack(&registers, regions),
        })
    }
}

/// Whether a stopped thread is in a restartable sequence, which would go on in its middle after a
/// call. The sequence of a CPU clock is none.
pub(crate) fn in_restartable_sequence(tracee: &Tracee, memory: &Memory) -> bool {
    // struct rseq of the kernel: rseq_cs is behind two processor numbers.
    let sequence = tracee.rseq_area().map(|area| memory.get::<u64>(area + 8));
    let is_sequence = |at: u64| at != 0 && !is_cpu_clock(memory, at);
    sequence.is_some_and(|at| is_sequence(at.unwrap_or(1)))
}

/// Whether the thread is on the stack that the C library or the kernel has given it, with room
/// below. Stacks of coroutines and of Go may end anywhere, and what is below belongs to others.
pub(crate) fn is_own_stack(registers: &user_regs_struct, regions: &[Region]) -> bool {
    const ROOM: u64 = 32 << 10;
    let holds = |r: &&Region, address| (r.lo..r.hi).contains(&address);
    let stack = regions.iter().find(|r| holds(r, registers.rsp));
    stack.is_some_and(|r| {
        // The C library keeps a thread's own data above its stack.
        let is_own = r.path == "[stack]" || (holds(&r, registers.fs_base) && r.path.is_empty());
        is_own && registers.rsp - r.lo > ROOM
    })
}

/// A stopped thread that can run calls.
pub(crate) fn find(process: &Process, memory: &Memory) -> Result<Tracee, Refusal> {
    let places = Places::of(process, memory);
    let began = Instant::now();
    loop {
        let all = threads(process.pid);
        if all.is_empty() {
            return Err(Refusal::gone(process.pid));
        }
        let regions = regions(process.pid).map_err(|_| Refusal::gone(process.pid))?;
        let only_sleepers = began.elapsed() < SLEEPERS_ONLY || places.has_own_allocator;
        // A thread in uninterruptible sleep would not stop.
        let may_do = |tid: &u32| match state(*tid) {
            'S' => true,
            state => !only_sleepers && state != 'D',
        };
        for tid in all.into_iter().filter(may_do).take(MOST_THREADS) {
            let found = look(tid, memory, &places, &regions, only_sleepers);
            if let Some(tracee) = found.map_err(|fault| refused(process.pid, fault))? {
                return Ok(tracee);
            }
        }
        if began.elapsed() > LIMIT {
            return Err(Refusal::new(
                format!(
                    "no thread of process {} came to a point where the agent could be loaded",
                    process.pid
                ),
                "try again when it does less, or start it under convoy: convoy -- COMMAND",
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

/// As in `/proc/TID/stat`.
fn state(tid: u32) -> char {
    let fields = stat_fields(tid).unwrap_or_default();
    fields.first().and_then(|f| f.chars().next()).unwrap_or('X')
}

fn look(
    tid: u32,
    memory: &Memory,
    places: &Places,
    regions: &[Region],
    only_sleepers: bool,
) -> Result<Option<Tracee>, Fault> {
    let Some(tracee) = Tracee::seize(tid)? else {
        return Ok(None);
    };
    let stopped = tracee
        .interrupt()
        .and_then(|()| tracee.wait_interrupted(Instant::now() + STOP_LIMIT));
    match stopped {
        Ok(()) => {}
        Err(Fault::Ended) => return Ok(None),
        Err(fault) => return Err(fault),
    }
    let at = match Position::of(&tracee, memory, regions) {
        Ok(at) => at,
        Err(Fault::Ended) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let is_safe = places.is_sleeper(&at) || (!only_sleepers && places.is_elsewhere(&at));
    Ok((is_safe && at.on_own_stack).then_some(tracee))
}

/// What the kernel said, for people.
pub(crate) fn refused(pid: u32, fault: Fault) -> Refusal {
    match fault {
        Fault::Ended => Refusal::gone(pid),
        Fault::TimedOut => Refusal::passing(
            format!("a thread of process {pid} sleeps in the kernel and cannot be stopped"),
            "try again later",
        ),
        Fault::Endless => Refusal::new(
            format!(
                "process {pid} cannot load the agent: a call in one of its threads does not end"
            ),
            "start it under convoy: convoy -- COMMAND",
        ),
        // Though its memory may be written: it is traced by another process.
        Fault::Refused(e) if e.raw_os_error() == Some(libc::EPERM) => {
            Refusal::passing(format!("process {pid} cannot be traced: {e}"), "")
        }
        Fault::Refused(e) => Refusal::new(format!("process {pid} cannot be traced: {e}"), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETURN: u64 = 0x7000;
    const SELECT: (u64, u64) = (0x9000, 0x9100);
    const MALLOC: (u64, u64) = (0xa000, 0xb000);
    const RSP: u64 = 0x1_0000;
    /// Index of a handler's frame, and of the stack of what it has interrupted.
    const FRAME: usize = 10;
    const BELOW: usize = 200;

    fn places() -> Places {
        Places {
            unsafe_code: vec![MALLOC],
            waits: Vec::new(),
            interrupted: vec![SELECT],
            signal_returns: vec![RETURN],
            has_own_allocator: false,
            own_allocator: Vec::new(),
        }
    }

    /// A thread in epoll_wait, with the frame of a handler that has interrupted `rip`.
    fn sleeper(rip: u64, rsp: u64) -> Position {
        let mut stack = vec![0; 1000];
        stack[FRAME] = RETURN;
        // As `interrupted` finds them.
        let registers = (FRAME + 1..BELOW).find(|&first| {
            let mut words = stack.clone();
            words[first] = rip;
            words[first - 1] = rsp;
            signal_frame::interrupted(&words[FRAME..]) == Some((rip, rsp))
        });
        let first = registers.expect("a frame has registers");
        stack[first] = rip;
        stack[first - 1] = rsp;
        Position {
            rip: 0x8000,
            rsp: RSP,
            call: Some(libc::SYS_epoll_wait),
            stack_end: RSP + 8 * stack.len() as u64,
            stack,
            in_restartable_sequence: false,
            on_own_stack: true,
        }
    }

    fn address(index: usize) -> u64 {
        RSP + 8 * index as u64
    }

    #[test]
    fn a_handler_inside_the_allocator_must_return_first() {
        let position = sleeper(MALLOC.0 + 1, address(BELOW));
        assert!(!places().is_sleeper(&position));
        let mut called = sleeper(0x8000, address(BELOW));
        assert!(places().is_sleeper(&called));
        called.stack[BELOW + 5] = MALLOC.0 + 1;
        assert!(!places().is_sleeper(&called));
    }

    #[test]
    fn what_lies_below_an_interrupted_sleep_does_not_matter() {
        let mut position = sleeper(SELECT.0 + 1, address(BELOW));
        position.stack[BELOW + 5] = MALLOC.0 + 1;
        assert!(places().is_sleeper(&position));
    }

    #[test]
    fn frames_of_handlers_that_have_returned_are_left_out() {
        for rsp in [0, address(FRAME), address(2000)] {
            assert!(places().is_sleeper(&sleeper(MALLOC.0 + 1, rsp)), "{rsp:x}");
        }
    }
}
