//! Choice of a thread that can run a call: one that is inside neither the allocator nor the loader.
//!
//! The call is dlopen. It allocates, and takes the loader's locks: in a thread that is inside one
//! of the two it would wait for itself. Best is a thread that sleeps in a system call which neither
//! of them ever makes; if there is none after a while, one whose stack shows no trace of them.

use std::time::{Duration, Instant};

use libc::user_regs_struct;

use crate::call::{sleeps_in, SIGRETURN};
use crate::memory::{regions, Memory, Region};
use crate::process::Process;
use crate::tracee::{threads, Fault, Tracee, STOP_LIMIT};
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

/// Where a thread must not be.
#[derive(Debug)]
pub(crate) struct Places {
    /// The allocator and the loader.
    unsafe_code: Vec<(u64, u64)>,
    /// Functions of [`WAITS`].
    waits: Vec<(u64, u64)>,
    /// What a signal handler returns to.
    signal_returns: Vec<u64>,
    /// The program may have an allocator of its own, anywhere in its code.
    has_own_allocator: bool,
}

impl Places {
    pub fn of(process: &Process) -> Self {
        let mut unsafe_code: Vec<(u64, u64)> = allocator(process).into_iter().collect();
        let mut has_own_allocator = false;
        for region in process.regions.iter().filter(|r| r.executable) {
            let file = region.file_name();
            let is_allocator = ["malloc", "hoard"].iter().any(|name| file.contains(name));
            if file.starts_with("ld-") || file.starts_with("ld.so") || is_allocator {
                unsafe_code.push((region.lo, region.hi));
            }
            has_own_allocator |= is_allocator;
        }
        let waits = WAITS
            .iter()
            .filter_map(|name| process.libc.range(name))
            .collect();
        let returns = process.libc.image.find_code(&SIGRETURN).into_iter();
        Self {
            unsafe_code,
            waits,
            signal_returns: returns.map(|at| at + process.libc.bias).collect(),
            has_own_allocator,
        }
    }

    fn is_unsafe(&self, address: u64) -> bool {
        contains(&self.unsafe_code, address)
    }

    fn in_signal_handler(&self, stack: &[u64]) -> bool {
        stack.iter().any(|word| self.signal_returns.contains(word))
    }

    /// It sleeps where neither allocator nor loader ever do.
    fn is_sleeper(&self, at: &Position) -> bool {
        let futex = at.call == Some(libc::SYS_futex);
        let waits = || {
            at.stack
                .iter()
                .take(64)
                .any(|word| contains(&self.waits, *word))
        };
        let sleeps = at.call.is_some_and(|call| SLEEPS.contains(&call)) || (futex && waits());
        sleeps && !self.in_signal_handler(&at.stack)
    }

    /// No trace of allocator or loader.
    fn is_elsewhere(&self, at: &Position) -> bool {
        let calls = at.stack.iter().take(CALL_WORDS);
        !self.is_unsafe(at.rip)
            && !calls.into_iter().any(|word| self.is_unsafe(*word))
            && !self.in_signal_handler(&at.stack)
            && !at.in_restartable_sequence
    }
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
    /// The system call that it sleeps in and that will be restarted.
    call: Option<i64>,
    stack: Vec<u64>,
    in_restartable_sequence: bool,
    on_own_stack: bool,
}

impl Position {
    fn of(tracee: &Tracee, memory: &Memory, regions: &[Region]) -> Result<Self, Fault> {
        let registers = tracee.registers()?;
        // struct rseq of the kernel: rseq_cs is behind two processor numbers.
        let area = tracee.rseq_area().map(|area| memory.get::<u64>(area + 8));
        Ok(Self {
            rip: registers.rip,
            call: sleeps_in(&registers),
            stack: memory.words(registers.rsp, SIGNAL_WORDS),
            in_restartable_sequence: area.is_some_and(|cs| cs.unwrap_or(1) != 0),
            on_own_stack: is_own_stack(&registers, regions),
        })
    }
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
    let places = Places::of(process);
    let began = Instant::now();
    loop {
        let all = threads(process.pid);
        if all.is_empty() {
            return Err(Refusal::gone(process.pid));
        }
        let regions = regions(process.pid).map_err(|_| Refusal::gone(process.pid))?;
        let only_sleepers = began.elapsed() < SLEEPERS_ONLY || places.has_own_allocator;
        for tid in all.into_iter().take(MOST_THREADS) {
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
        Fault::TimedOut => Refusal::new(
            format!("a thread of process {pid} sleeps in the kernel and cannot be stopped"),
            "try again later",
        ),
        Fault::Refused(e) => Refusal::new(format!("process {pid} cannot be traced: {e}"), ""),
    }
}
