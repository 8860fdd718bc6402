//! Says in [`Raw`] events what the records say.

use std::collections::HashMap;

use zerocopy::FromBytes;

use convoy_abi::{
    BpfEvent, BpfInit, BpfLife, BpfRecord, BpfRegisters, BpfStack, CV_BPF_EXEC, CV_BPF_EXIT,
    CV_BPF_FORK, CV_BPF_HAS_REGISTERS, CV_BPF_INIT, CV_BPF_IOWAIT, CV_BPF_KERNEL, CV_BPF_LOST,
    CV_BPF_LOST_STACKS, CV_BPF_OFF, CV_BPF_ON_CPU, CV_BPF_SAMPLE, CV_BPF_STACK, CV_BPF_SWITCH,
    CV_BPF_WAKER, CV_BPF_WAKEUP,
};

use crate::kernel::raw::{Call, Left, Outcome, Raw, Registers, Regs, Sink, WakerRaw};

/// Stacks of threads that were blocked when they were adopted, by tid.
pub(super) type BlockedStacks = HashMap<u32, Vec<u8>>;

/// Hands events to a sink, and sees to it that time never goes back.
pub(super) struct Delivery<'a> {
    pub sink: &'a mut dyn Sink,
    pub blocked: &'a mut BlockedStacks,
    /// Of the last event.
    pub ts: &'a mut u64,
}

impl Delivery<'_> {
    /// An event of a ring.
    #[inline]
    pub fn event(&mut self, event: &BpfEvent) {
        let ts = self.not_before(event.ts_ns);
        let raw = match event.kind {
            CV_BPF_SWITCH => Raw::Switch {
                ts,
                out: (event.tid != 0).then(|| (event.tid, left(event))),
                into: (event.other != 0).then_some(event.other),
            },
            CV_BPF_WAKEUP => Raw::Wakeup {
                ts,
                tid: event.tid,
                waker: (event.flags & CV_BPF_WAKER != 0).then(|| waker(event)),
            },
            CV_BPF_LOST | CV_BPF_LOST_STACKS => Raw::Lost {
                from: event.arg0,
                to: ts,
                n: u64::from(event.tid),
                stacks: event.kind == CV_BPF_LOST_STACKS,
            },
            _ => return,
        };
        self.sink.take(&raw);
    }

    /// A record of the ring buffer.
    pub fn record(&mut self, bytes: &[u8]) {
        let Ok((head, _)) = BpfRecord::read_from_prefix(bytes) else {
            return;
        };
        let ts = self.not_before(head.ts_ns);
        match head.kind {
            CV_BPF_FORK | CV_BPF_EXEC | CV_BPF_EXIT => {
                if let Ok((life, _)) = BpfLife::read_from_prefix(bytes) {
                    self.sink.take(&told(ts, &life));
                }
            }
            CV_BPF_INIT => {
                if let Ok((init, _)) = BpfInit::read_from_prefix(bytes) {
                    self.init(ts, &init);
                }
            }
            CV_BPF_STACK | CV_BPF_SAMPLE => {
                if let Ok((stack, copied)) = BpfStack::read_from_prefix(bytes) {
                    self.stack(ts, &stack, copied);
                }
            }
            _ => {}
        }
    }

    fn stack(&mut self, ts: u64, stack: &BpfStack, copied: &[u8]) {
        let regs = Regs {
            ip: stack.ip,
            sp: stack.sp,
            fp: stack.fp,
            lr: stack.lr,
        };
        let has_registers = stack.flags & u16::from(CV_BPF_HAS_REGISTERS) != 0;
        let (registers, copied) = match BpfRegisters::read_from_prefix(copied) {
            Ok((registers, copied)) if has_registers => (Some(registers), copied),
            _ => (None, copied),
        };
        let registers = registers.map(|registers| Registers {
            general: registers.general,
            red_zone: registers.red_zone,
        });
        let bytes = copied.get(..usize::from(stack.bytes)).unwrap_or_default();
        let frames = usize::from(stack.kernel_frames);
        let raw = if stack.kind == CV_BPF_STACK {
            Raw::Stack {
                ts,
                tid: stack.tid,
                key: stack.key,
                regs,
                bytes,
                kernel: stack.kernel.get(..frames).unwrap_or_default(),
            }
        } else {
            let in_kernel = stack.flags & u16::from(CV_BPF_KERNEL) != 0;
            let user = cfg!(target_arch = "x86_64") && !in_kernel;
            Raw::Sample {
                ts,
                tid: stack.tid,
                regs,
                bytes,
                in_kernel,
                call: Call {
                    nr: stack.nr,
                    arg0: if in_kernel { stack.arg0 } else { 0 },
                    arg1: if in_kernel { stack.arg1 } else { 0 },
                },
                outcome: user.then_some(Outcome {
                    accumulator: stack.arg0,
                    flags: stack.arg1,
                }),
                registers: registers.as_ref(),
            }
        };
        self.sink.take(&raw);
    }

    fn init(&mut self, ts: u64, init: &BpfInit) {
        let left = (init.flags & u32::from(CV_BPF_OFF) != 0).then_some(Left {
            state: init.state,
            call: Call {
                nr: init.nr,
                arg0: init.arg0,
                arg1: init.arg1,
            },
            iowait: false,
            key: init.key,
        });
        if let Some(bytes) = self.blocked.remove(&init.tid) {
            self.sink.take(&Raw::Stack {
                ts,
                tid: init.tid,
                key: init.key,
                regs: regs_of(init),
                bytes: &bytes,
                kernel: &[],
            });
        }
        self.sink.take(&Raw::Init {
            ts,
            tid: init.tid,
            pid: init.tgid,
            comm: init.comm,
            left,
            on_cpu: init.flags & u32::from(CV_BPF_ON_CPU) != 0,
        });
    }

    /// Something that the programs could not tell.
    pub fn lost(&mut self, from: u64, to: u64, n: u64, stacks: bool) {
        let to = self.not_before(to);
        self.sink.take(&Raw::Lost {
            from,
            to,
            n,
            stacks,
        });
    }

    /// An event that was published too late is told as of the one before it.
    #[inline]
    fn not_before(&mut self, ts: u64) -> u64 {
        *self.ts = ts.max(*self.ts);
        *self.ts
    }
}

/// Where a thread was when it was adopted.
pub(super) fn regs_of(init: &BpfInit) -> Regs {
    Regs {
        ip: init.ip,
        sp: init.sp,
        fp: init.fp,
        lr: init.lr,
    }
}

fn call(event: &BpfEvent) -> Call {
    Call {
        nr: event.nr,
        arg0: event.arg0,
        arg1: event.arg1,
    }
}

fn left(event: &BpfEvent) -> Left {
    Left {
        state: event.state,
        call: call(event),
        iowait: event.flags & CV_BPF_IOWAIT != 0,
        key: event.key,
    }
}

fn waker(event: &BpfEvent) -> WakerRaw {
    WakerRaw {
        tid: event.other,
        call: call(event),
        kernel: event.flags & CV_BPF_KERNEL != 0,
        key: event.key,
    }
}

fn told(ts: u64, life: &BpfLife) -> Raw<'static> {
    match life.kind {
        CV_BPF_FORK => Raw::Fork {
            ts,
            parent: life.other,
            tid: life.tid,
            pid: life.tgid,
        },
        CV_BPF_EXEC => Raw::Exec {
            ts,
            pid: life.tgid,
            old_tid: life.other,
        },
        _ => Raw::Exit {
            ts,
            tid: life.tid,
            comm: life.comm,
        },
    }
}
