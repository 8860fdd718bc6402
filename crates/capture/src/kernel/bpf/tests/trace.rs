//! A sink that keeps events and knows what must hold among them.

use std::collections::{HashMap, HashSet};

use crate::kernel::raw::{Left, Raw, Regs, Sink, WakerRaw};

/// A [`Raw`] event that can be kept. Some of it is only there to be printed when a test fails.
#[derive(Debug, Clone)]
#[allow(dead_code)]
pub(super) enum Kept {
    Switch {
        ts: u64,
        out: Option<(u32, Left)>,
        into: Option<u32>,
    },
    Wakeup {
        ts: u64,
        tid: u32,
        waker: Option<WakerRaw>,
    },
    Fork {
        ts: u64,
        parent: u32,
        tid: u32,
        pid: u32,
    },
    Exec {
        ts: u64,
        pid: u32,
        old_tid: u32,
    },
    Exit {
        ts: u64,
        tid: u32,
        comm: [u8; 16],
    },
    Init {
        ts: u64,
        tid: u32,
        pid: u32,
        left: Option<Left>,
        on_cpu: bool,
    },
    Stack {
        ts: u64,
        tid: u32,
        key: u32,
        regs: Regs,
        bytes: usize,
        kernel: usize,
    },
    Sample {
        ts: u64,
        tid: u32,
        regs: Regs,
        bytes: usize,
        in_kernel: bool,
    },
    Lost {
        from: u64,
        to: u64,
        n: u64,
        stacks: bool,
    },
}

/// Everything that came.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub kept: Vec<Kept>,
    upto: u64,
    /// Events that came after a pause, and are older.
    late: usize,
}

impl Sink for Trace {
    fn take(&mut self, raw: &Raw<'_>) {
        let kept = match *raw {
            Raw::Switch { ts, out, into } => Kept::Switch { ts, out, into },
            Raw::Wakeup { ts, tid, waker } => Kept::Wakeup { ts, tid, waker },
            Raw::Fork {
                ts,
                parent,
                tid,
                pid,
            } => Kept::Fork {
                ts,
                parent,
                tid,
                pid,
            },
            Raw::Exec { ts, pid, old_tid } => Kept::Exec { ts, pid, old_tid },
            Raw::Exit { ts, tid, comm } => Kept::Exit { ts, tid, comm },
            Raw::Init {
                ts,
                tid,
                pid,
                left,
                on_cpu,
                ..
            } => Kept::Init {
                ts,
                tid,
                pid,
                left,
                on_cpu,
            },
            Raw::Stack {
                ts,
                tid,
                key,
                regs,
                bytes,
                kernel,
            } => Kept::Stack {
                ts,
                tid,
                key,
                regs,
                bytes: bytes.len(),
                kernel: kernel.len(),
            },
            Raw::Sample {
                ts,
                tid,
                regs,
                bytes,
                in_kernel,
                ..
            } => Kept::Sample {
                ts,
                tid,
                regs,
                bytes: bytes.len(),
                in_kernel,
            },
            Raw::Lost {
                from,
                to,
                n,
                stacks,
            } => Kept::Lost {
                from,
                to,
                n,
                stacks,
            },
        };
        // A processor that its host takes away between the clock and the ring tells an event late.
        self.late += usize::from(kept.ts() < self.upto);
        self.kept.push(kept);
    }

    fn pause(&mut self, upto: u64) {
        self.upto = upto;
    }
}

impl Kept {
    pub fn ts(&self) -> u64 {
        match *self {
            Self::Switch { ts, .. }
            | Self::Wakeup { ts, .. }
            | Self::Fork { ts, .. }
            | Self::Exec { ts, .. }
            | Self::Exit { ts, .. }
            | Self::Init { ts, .. }
            | Self::Stack { ts, .. }
            | Self::Sample { ts, .. } => ts,
            Self::Lost { to, .. } => to,
        }
    }
}

/// What a thread may do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    On,
    Ready,
    Off,
}

impl Trace {
    /// Time never goes back; who comes on a processor could run; who leaves one was on it; and there are only so many
    /// processors. Those are the laws of the scheduler, so missing or misplaced events break them.
    ///
    /// One kind of event may be missing: the kernel of a rented machine need not tell, neither here nor to ftrace, that
    /// a thread of its landlord leaves a processor. Who comes then is seen when it leaves again. That takes a processor
    /// which was given to somebody who is not recorded.
    pub fn check_order(&self) {
        let mut is: HashMap<u32, Is> = HashMap::new();
        let processors = libbpf_rs::num_possible_cpus().expect("processors");
        let mut with_others = processors;
        let mut before = 0;
        let mut contradictions = Vec::new();
        for kept in &self.kept {
            assert!(kept.ts() >= before, "time goes back at {kept:?}");
            before = kept.ts();
            match *kept {
                Kept::Fork { tid, .. } => {
                    is.insert(tid, Is::Off);
                }
                // The thread that has become the program takes the process's id over.
                Kept::Exec { pid, old_tid, .. } => {
                    if let Some(state) = is.remove(&old_tid) {
                        is.insert(pid, state);
                    }
                }
                Kept::Init {
                    tid, left, on_cpu, ..
                } => {
                    let state = match (left, on_cpu) {
                        (Some(_), _) => Is::Off,
                        (None, true) => Is::On,
                        (None, false) => Is::Ready,
                    };
                    with_others = with_others.saturating_sub(usize::from(state == Is::On));
                    is.insert(tid, state);
                }
                Kept::Wakeup { tid, .. } => {
                    let state = is.entry(tid).or_insert(Is::Ready);
                    if *state == Is::Off {
                        *state = Is::Ready;
                    }
                }
                Kept::Switch { out, into, .. } => {
                    if let Some((tid, left)) = out {
                        let next = if left.state == 0 { Is::Ready } else { Is::Off };
                        match is.insert(tid, next) {
                            Some(Is::On) | None => {}
                            Some(Is::Ready) if with_others > 0 => with_others -= 1,
                            was => contradictions.push((kept, was)),
                        }
                        with_others = processors.min(with_others + 1);
                    }
                    if let Some(tid) = into {
                        let was = is.insert(tid, Is::On);
                        if matches!(was, Some(Is::Off | Is::On)) || with_others == 0 {
                            contradictions.push((kept, was));
                        }
                        with_others = with_others.saturating_sub(1);
                    }
                }
                _ => {}
            }
        }
        assert!(
            self.late <= 2 + self.kept.len() / 20_000,
            "{} of {} came after a pause that was later",
            self.late,
            self.kept.len()
        );
        assert!(
            contradictions.is_empty(),
            "{} of {}: {contradictions:?}",
            contradictions.len(),
            self.kept.len()
        );
    }

    /// Every place that is named has a stack, which came before.
    pub fn check_stacks(&self) {
        let mut have = HashSet::new();
        let mut empty = Vec::new();
        // Of each thread, since its last one that was copied.
        let mut open: HashMap<u32, Vec<&Kept>> = HashMap::new();
        for kept in &self.kept {
            match *kept {
                Kept::Stack {
                    tid, key, bytes, ..
                } => {
                    if bytes == 0 {
                        open.entry(tid).or_default().push(kept);
                    } else {
                        empty.extend(open.remove(&tid).into_iter().flatten());
                    }
                    have.insert((tid, key));
                }
                // Within `execve`, once the old image is gone, the registers still lead to a stack of it: a thread
                // that waits there for the disk with the new image on it has nothing to copy.
                Kept::Exec { old_tid, .. } => _ = open.remove(&old_tid),
                Kept::Switch {
                    out: Some((tid, left)),
                    ..
                } if left.key != 0 => {
                    assert!(have.contains(&(tid, left.key)), "no stack: {kept:?}")
                }
                Kept::Wakeup { waker: Some(w), .. } if w.key != 0 => {
                    assert!(have.contains(&(w.tid, w.key)), "no stack: {kept:?}");
                }
                _ => {}
            }
        }
        empty.extend(open.into_values().flatten());
        // A thread that waits for a page of its stack has none there to copy: that is rare.
        assert!(
            empty.len() <= 1 + self.kept.len() / 1_000,
            "{} of {} are empty: {empty:?}",
            empty.len(),
            self.kept.len()
        );
    }

    /// The process and the threads and processes that it made, and that those made, in that order. Other tests may
    /// start programs at the same time.
    pub fn family(&self, pid: u32) -> Vec<u32> {
        let mut family = vec![pid];
        for kept in &self.kept {
            if let Kept::Fork { parent, tid, .. } = kept {
                if family.contains(parent) && *tid != pid {
                    family.push(*tid);
                }
            }
        }
        family
    }

    /// How many events satisfy this.
    pub fn count(&self, which: impl Fn(&Kept) -> bool) -> usize {
        self.kept.iter().filter(|kept| which(kept)).count()
    }

    /// Events that could not be kept, and stacks.
    pub fn lost(&self) -> (u64, u64) {
        let mut lost = (0, 0);
        for kept in &self.kept {
            match kept {
                Kept::Lost {
                    n, stacks: false, ..
                } => lost.0 += n,
                Kept::Lost { n, .. } => lost.1 += n,
                _ => {}
            }
        }
        lost
    }

    /// Whoever is seen to run has a beginning, and only one.
    pub fn check_beginnings(&self) {
        let mut begun: HashMap<u32, u32> = HashMap::new();
        let mut seen = HashSet::new();
        for kept in &self.kept {
            match *kept {
                Kept::Fork { tid, .. } | Kept::Init { tid, .. } => {
                    *begun.entry(tid).or_default() += 1;
                }
                Kept::Wakeup { tid, .. } => {
                    seen.insert(tid);
                }
                Kept::Switch { out, into, .. } => {
                    seen.extend(out.map(|o| o.0).into_iter().chain(into))
                }
                _ => {}
            }
        }
        for tid in seen {
            assert_eq!(begun.get(&tid), Some(&1), "beginnings of {tid}");
        }
    }

    /// How often threads of this family blocked in this system call.
    pub fn blocked_in(&self, family: &[u32], call: libc::c_long) -> usize {
        self.count(|kept| match kept {
            Kept::Switch {
                out: Some((tid, left)),
                ..
            } => {
                family.contains(tid) && left.state != 0 && libc::c_long::from(left.call.nr) == call
            }
            _ => false,
        })
    }
}
