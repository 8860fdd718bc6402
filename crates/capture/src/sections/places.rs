//! What the accounting knows by address, as indices of the profile.

use std::collections::HashMap;

use convoy_profile::{
    Frame, FrameIx, Module, ModuleIx, ObjectIx, Op, Process, Reason, StackIx, Symbol, ThreadIx,
};
use convoy_sections::Places;

use super::Image;
use crate::arena::{op_of, Late};

/// Adds frames and modules to the processes of a profile as they are asked for.
pub(super) struct OfProfile<'a> {
    processes: &'a mut [Process],
    images: HashMap<u32, Known>,
}

struct Known {
    image: Image,
    /// In the profile.
    process: usize,
    late: Late,
    frames: HashMap<(u64, bool), FrameIx>,
    /// The latest at each address.
    objects: HashMap<u64, ObjectIx>,
}

impl<'a> OfProfile<'a> {
    pub fn new(
        processes: &'a mut [Process],
        images: Vec<Image>,
        late: impl Fn(u32, u64) -> Option<Late>,
    ) -> Self {
        let known = images.into_iter().filter_map(|image| {
            let is_it = |p: &Process| p.pid == image.pid && p.start_ns == image.start_ns;
            let ix = processes.iter().position(is_it)?;
            let process = &processes[ix];
            let frames = process.frames.iter().zip(0..);
            let objects = process.objects.iter().zip(0..);
            let known = Known {
                process: ix,
                late: late(image.pid, image.start_ns).unwrap_or_default(),
                frames: frames.map(|(f, ix)| ((f.pc, f.exact), ix)).collect(),
                objects: objects.map(|(o, ix)| (o.addr, ix)).collect(),
                image,
            };
            Some((known.image.number, known))
        });
        Self {
            images: known.collect(),
            processes,
        }
    }

    fn frame(&mut self, process: u32, pc: u64, exact: bool) -> FrameIx {
        let Some(known) = self.images.get_mut(&process) else {
            return 0; // the accounting has asked for the process before, and leaves its sections out
        };
        let of = &mut self.processes[known.process];
        if let Some(ix) = known.frames.get(&(pc, exact)) {
            return *ix;
        }
        let module = module(
            of,
            &known.image,
            if exact { pc } else { pc.wrapping_sub(1) },
        );
        let bias = module.and_then(|ix| of.modules.get(ix as usize));
        let ix = of.frames.len() as FrameIx;
        of.frames.push(Frame {
            pc,
            module,
            offset: pc.wrapping_sub(bias.map_or(0, |m| m.bias)),
            exact,
            no_rule: false,
            symbol: Symbol::Unknown(Reason::NotResolved),
        });
        known.frames.insert((pc, exact), ix);
        ix
    }
}

/// The module that holds an address: one of the process's, or one that only the tracer has met, which becomes one of them.
fn module(of: &mut Process, image: &Image, address: u64) -> Option<ModuleIx> {
    let holds = |m: &Module| (m.lo..m.hi).contains(&address);
    if let Some(ix) = of.modules.iter().rposition(holds) {
        return Some(ix as ModuleIx);
    }
    let module = image.modules.of(address)?.clone();
    of.modules.push(module);
    Some(of.modules.len() as ModuleIx - 1)
}

impl Places for OfProfile<'_> {
    fn process(&mut self, process: u32) -> Option<u32> {
        self.images.get(&process).map(|k| k.process as u32)
    }

    fn instruction(&mut self, process: u32, ip: u64) -> FrameIx {
        self.frame(process, ip, true)
    }

    fn return_address(&mut self, process: u32, ra: u64) -> FrameIx {
        self.frame(process, ra, false)
    }

    fn stack(&mut self, process: u32, stack: u32) -> StackIx {
        let known = self.images.get(&process);
        known
            .and_then(|k| k.late.stacks.get(&stack).copied())
            .unwrap_or(0)
    }

    fn object(&mut self, process: u32, address: u64) -> Option<ObjectIx> {
        self.images.get(&process)?.objects.get(&address).copied()
    }

    fn thread(&mut self, process: u32, thread: u32) -> Option<ThreadIx> {
        let known = self.images.get(&process)?;
        known.late.threads.get(&thread).copied()
    }

    fn op(&mut self, op: u32) -> Option<Op> {
        op_of(u16::try_from(op).ok()?)
    }
}
