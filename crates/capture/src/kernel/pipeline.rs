//! From raw events to the accounting: looks up what a raw event only names. Which call stack a copy
//! of stack memory is, what a system call waits for, who can have woken whom, and whether a sampled
//! thread works or waits in a loop.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use convoy_profile::{NameIx, OffReason, SchedSource, StackIx};
use convoy_sched::reason::{can_wake, BlockState};
use convoy_sched::{Accounting, Event, Map, Options, Out, Place, State, WakerIs};

use super::descriptors::Descriptors;
use super::goroutines::Goroutines;
use super::images::{Image, Images};
use super::lines::{Lines, Touch};
use super::operands::AtHand;
use super::raw::{Call, Left, Raw, Regs, Sink, WakerRaw};
use super::reason;
use super::spin_samples::{Loops, Sample};
use super::writes::Writes;
use crate::clock::monotonic_ns;

/// Places that are remembered of one thread. A thread that blocks at more is rare, and has the rest looked up
/// again by the next copies of its stack.
const PLACES_PER_THREAD: usize = 512;

/// Processes' sockets are looked at for so long at most, now and at the end: there may be thousands.
const LOOKS: Duration = Duration::from_millis(50);
/// When that is first. Each pause is half as long again as the one before, up to the last one: so a process that ends before the recording
/// does is looked at if it lives for half as long as the recording had lasted when it began.
const FIRST_LOOK_NS: u64 = 250_000_000;
const LAST_PAUSE_NS: u64 = 10_000_000_000;

/// When processes' sockets are looked at.
#[derive(Debug)]
struct Due {
    at_ns: u64,
    pause_ns: u64,
}

impl Due {
    fn is_now(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.at_ns;
        if due {
            self.at_ns = now_ns.saturating_add(self.pause_ns);
            self.pause_ns = (self.pause_ns / 2 * 3).min(LAST_PAUSE_NS);
        }
        due
    }
}

/// Everything that turns raw events into tables.
#[derive(Debug)]
pub(crate) struct Pipeline {
    accounting: Accounting,
    images: Images,
    descriptors: Descriptors,
    loops: Loops,
    lines: Lines,
    writes: Writes,
    goroutines: Goroutines,
    places: Map<u32, Map<u32, Spot>>,
    /// What each blocked thread waits for: a wake-up is judged by it.
    waits: Map<u32, (OffReason, i16)>,
    kernel_stacks: KernelStacks,
    due: Due,
    /// The source knows what a thread waits in: without system calls there is no reason.
    knows_calls: bool,
}

/// Where a thread was when its stack was copied.
#[derive(Debug, Clone, Copy, Default)]
struct Spot {
    stack: StackIx,
    kernel_stack: u32,
}

/// What has been collected.
#[derive(Debug)]
pub(crate) struct Collected {
    pub output: convoy_sched::Output,
    /// In the order of [`convoy_sched::Output::images`].
    pub images: Vec<Image>,
    pub names: Vec<String>,
    pub loops: Loops,
    pub lines: Lines,
    pub writes: Writes,
    /// Names of the kernel's functions, leaf first, by the ids in the output; id 0 is empty. An address, "0x...", where the source
    /// cannot tell.
    pub kernel_stacks: Vec<Vec<String>>,
}

impl Pipeline {
    pub fn new(options: Options) -> Self {
        Self {
            knows_calls: options.source == SchedSource::Bpf,
            accounting: Accounting::new(options),
            images: Images::default(),
            descriptors: Descriptors::default(),
            loops: Loops::default(),
            lines: Lines::default(),
            writes: Writes::default(),
            goroutines: Goroutines::default(),
            places: Map::default(),
            waits: Map::default(),
            kernel_stacks: KernelStacks::default(),
            due: Due {
                at_ns: monotonic_ns().saturating_add(FIRST_LOOK_NS),
                pause_ns: FIRST_LOOK_NS,
            },
        }
    }

    /// To be called now and then: looks at what nobody tells. When that should be again, if something is worth it.
    pub fn look(&mut self) -> Option<u64> {
        let next_ns = self.goroutines.look(&mut self.images);
        let now_ns = monotonic_ns();
        if self.due.is_now(now_ns) {
            self.look_at_sockets(now_ns);
        }
        next_ns
    }

    /// A server that is busy all the time, or waits for events only, has no wait in which one of its sockets is seen.
    fn look_at_sockets(&mut self, now_ns: u64) {
        let descriptors = &mut self.descriptors;
        let started = Instant::now();
        self.images.each_running(|image| {
            if started.elapsed() < LOOKS {
                descriptors.look(image.pid, now_ns);
            }
        });
    }

    /// The recording ends. `kernel_name`: of the function that an address of the kernel is in.
    pub fn finish(mut self, end_ns: u64, kernel_name: impl Fn(u64) -> Option<String>) -> Collected {
        self.look_at_sockets(end_ns);
        let descriptors = &self.descriptors;
        self.images
            .each_running(|image| image.listens = descriptors.listens(image.pid));
        Collected {
            output: self.accounting.finish(end_ns),
            images: self.images.finish(),
            names: self.descriptors.into_names(),
            loops: self.loops,
            lines: self.lines,
            writes: self.writes,
            kernel_stacks: self.kernel_stacks.named(kernel_name),
        }
    }

    fn out(&mut self, ts: u64, tid: u32, left: &Left) -> Event {
        let how = match reason::state_of(left) {
            BlockState::Runnable => Out::Preempted(Place {
                reason: OffReason::Preempted,
                // Whatever else it was in, it was not that which took the processor away.
                nr: if reason::gives_way(&left.call) {
                    left.call.nr
                } else {
                    -1
                },
                ..Place::default()
            }),
            BlockState::Dead => Out::Dead,
            _ => Out::Blocked(self.blocked(ts, tid, left)),
        };
        Event::Out { ts, tid, how }
    }

    fn blocked(&mut self, ts: u64, tid: u32, left: &Left) -> Place {
        let place = self.place(ts, tid, left);
        self.loops.left(tid);
        self.waits.insert(tid, (place.reason, place.nr));
        place
    }

    fn place(&mut self, ts: u64, tid: u32, left: &Left) -> Place {
        let spot = self.spot(tid, left.key);
        let name = self.file_of(ts, tid, &left.call);
        let text = name.and_then(|name| self.descriptors.text(name));
        let reason = match reason::of(left, text) {
            // No call that is known is not the same as no call.
            OffReason::PageFault if !self.knows_calls => OffReason::Unknown,
            reason => reason,
        };
        if let (OffReason::Sleep, Some(image)) = (reason, self.images.of_thread(tid)) {
            self.loops.sleeps(image, ts, spot.stack);
        }
        Place {
            stack: spot.stack,
            reason,
            nr: left.call.nr,
            address: if reason == OffReason::Futex {
                left.call.arg0
            } else {
                0
            },
            name,
            kernel_stack: spot.kernel_stack,
        }
    }

    fn file_of(&mut self, ts: u64, tid: u32, call: &Call) -> Option<NameIx> {
        let fd = reason::descriptor(call)?;
        self.descriptors.name(self.images.pid(tid)?, fd, ts)
    }

    fn spot(&self, tid: u32, key: u32) -> Spot {
        let places = self.places.get(&tid);
        places
            .and_then(|places| places.get(&key))
            .copied()
            .unwrap_or_default()
    }

    /// Code that an interrupt happened to interrupt has woken nobody: a waker must be in a system call that
    /// can end such a wait.
    fn waker(&self, tid: u32, waker: &WakerRaw) -> WakerIs {
        let interrupt = waker.tid == 0 || waker.kernel;
        let plausible = || {
            let (waits_for, nr) = self.waits.get(&tid).copied().unwrap_or_default();
            can_wake(waker.call.nr, waits_for, nr, reason::ARCH)
        };
        if interrupt || !plausible() {
            return WakerIs::Interrupt;
        }
        WakerIs::Thread(waker.tid, self.spot(waker.tid, waker.key).stack)
    }

    fn unwind(&mut self, tid: u32, regs: &Regs, bytes: &[u8]) -> StackIx {
        let regs = convoy_unwind::Regs {
            ip: regs.ip,
            sp: regs.sp,
            fp: regs.fp,
            lr: regs.lr,
        };
        self.images
            .of_thread(tid)
            .map_or(0, |image| image.unwinder.stack(regs, bytes))
    }

    fn touch(&mut self, ts: u64, tid: u32, touch: &Touch) {
        let (thread, image) = (self.accounting.thread(tid), self.images.of_thread(tid));
        if let (Some(thread), Some(image)) = (thread, image) {
            self.lines.of_sample(image, ts, thread, touch);
        }
    }

    fn file_call(&mut self, ts: u64, tid: u32, stack: StackIx, call: &Call) {
        let Some(moved) = reason::moved(call) else {
            return;
        };
        let name = self.file_of(ts, tid, call);
        if let (Some(thread), Some(name)) = (self.accounting.thread(tid), name) {
            self.writes.of_sample(thread, stack, name, moved);
        }
    }

    fn remember(&mut self, tid: u32, key: u32, spot: Spot) {
        let places = self.places.entry(tid).or_default();
        if places.len() >= PLACES_PER_THREAD {
            places.clear();
        }
        places.insert(key, spot);
    }

    fn forget(&mut self, tid: u32) {
        self.places.remove(&tid);
        self.waits.remove(&tid);
        self.loops.left(tid);
    }
}

impl Sink for Pipeline {
    fn take(&mut self, raw: &Raw<'_>) {
        match *raw {
            Raw::Switch { ts, out, into } => {
                if let Some((tid, left)) = out {
                    let event = self.out(ts, tid, &left);
                    self.accounting.push(&event);
                }
                if let Some(tid) = into {
                    self.accounting.push(&Event::In { ts, tid });
                }
            }
            Raw::Wakeup { ts, tid, waker } => {
                let waker = waker.map_or(WakerIs::Unknown, |w| self.waker(tid, &w));
                self.accounting.push(&Event::Wakeup { ts, tid, waker });
            }
            Raw::Fork {
                ts,
                parent,
                tid,
                pid,
            } => {
                self.images.thread(tid, pid);
                self.accounting.push(&Event::Fork {
                    ts,
                    tid,
                    pid,
                    parent,
                });
            }
            Raw::Exec { ts, pid, old_tid } => {
                if let Some(image) = self.images.of_thread(old_tid) {
                    image.listens = self.descriptors.listens(pid);
                }
                self.images.exec(pid, old_tid);
                self.forget(old_tid);
                self.forget(pid);
                self.accounting.push(&Event::Exec { ts, pid, old_tid });
            }
            Raw::Exit { ts, tid, comm } => {
                if let Some(ended) = self.images.exit(tid, &comm) {
                    ended.listens = self.descriptors.listens(ended.pid);
                    self.descriptors.forget(ended.pid);
                }
                self.forget(tid);
                self.accounting.push(&Event::Exit { ts, tid });
            }
            Raw::Init {
                ts,
                tid,
                pid,
                comm,
                left,
                on_cpu,
            } => {
                self.images.thread(tid, pid);
                self.images.name(tid, &comm);
                let state = match left {
                    Some(left) => State::Blocked(self.blocked(ts, tid, &left)),
                    None if on_cpu => State::Running,
                    None => State::Ready,
                };
                let event = Event::Init {
                    ts,
                    tid,
                    pid,
                    state,
                };
                self.accounting.push(&event);
            }
            Raw::Stack {
                tid,
                key,
                ref regs,
                bytes,
                kernel,
                ..
            } => {
                let spot = Spot {
                    stack: self.unwind(tid, regs, bytes),
                    kernel_stack: self.kernel_stacks.intern(kernel),
                };
                self.remember(tid, key, spot);
            }
            Raw::Sample {
                ts,
                tid,
                ref regs,
                bytes,
                in_kernel,
                ref call,
                outcome,
                registers,
            } => {
                let stack = self.unwind(tid, regs, bytes);
                let sample = Sample {
                    ts,
                    tid,
                    stack,
                    in_kernel,
                    call,
                    outcome,
                };
                let image = self.images.of_thread(tid);
                let spin = image.and_then(|image| self.loops.of_sample(image, &sample));
                if let Some(registers) = registers {
                    let touch = Touch {
                        stack,
                        ip: regs.ip,
                        at_hand: AtHand {
                            registers,
                            stack: bytes,
                        },
                        waits: spin.is_some(),
                    };
                    self.touch(ts, tid, &touch);
                }
                if in_kernel {
                    self.file_call(ts, tid, stack, call);
                }
                self.accounting.push(&Event::Sample {
                    ts,
                    tid,
                    stack,
                    spin,
                    fault: self.knows_calls && reason::is_fault(in_kernel, call),
                });
            }
            // Waits without their stack have an older one of the same place, or none: nothing to account.
            Raw::Lost {
                from,
                to,
                n,
                stacks,
            } => self.accounting.push(&Event::Lost {
                from,
                to,
                n,
                stacks,
            }),
        }
    }

    fn pause(&mut self, _upto: u64) {
        self.images.look();
    }
}

/// The kernel's call stacks, each once.
#[derive(Debug)]
struct KernelStacks {
    all: Vec<Vec<u64>>,
    index: HashMap<Vec<u64>, u32>,
}

impl Default for KernelStacks {
    fn default() -> Self {
        Self {
            all: vec![Vec::new()],
            index: HashMap::new(),
        }
    }
}

impl KernelStacks {
    /// More different ones than this are not kept.
    const MOST: usize = 4096;

    fn intern(&mut self, addresses: &[u64]) -> u32 {
        if addresses.is_empty() {
            return 0;
        }
        if let Some(&id) = self.index.get(addresses) {
            return id;
        }
        if self.all.len() >= Self::MOST {
            return 0;
        }
        let id = self.all.len() as u32;
        self.all.push(addresses.to_vec());
        self.index.insert(addresses.to_vec(), id);
        id
    }

    fn named(self, name: impl Fn(u64) -> Option<String>) -> Vec<Vec<String>> {
        let mut known = HashMap::new();
        let mut named = |address: u64| -> String {
            known
                .entry(address)
                .or_insert_with(|| name(address).unwrap_or_else(|| format!("{address:#x}")))
                .clone()
        };
        let all = self.all.into_iter();
        all.map(|stack| stack.into_iter().map(&mut named).collect())
            .collect()
    }
}
