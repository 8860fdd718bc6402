//! Frames and stacks, each kept once.

use std::collections::HashMap;

use convoy_profile::{Frame, FrameIx, ModuleIx, Reason, StackIx, Symbol};

/// What is known about the place of a frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) module: Option<ModuleIx>,
    pub(crate) bias: u64,
}

#[derive(Debug)]
pub(crate) struct Interner {
    pub(crate) frames: Vec<Frame>,
    pub(crate) stacks: Vec<Vec<FrameIx>>,
    /// By address, and whether it is the address itself (a leaf).
    frame_keys: HashMap<(u64, bool), FrameIx>,
    /// By addresses, leaf first: a known stack costs one look-up, whatever its depth.
    stack_keys: HashMap<Box<[u64]>, StackIx>,
}

impl Interner {
    pub(crate) fn new() -> Self {
        Self {
            frames: Vec::new(),
            stacks: vec![Vec::new()], // 0: unknown
            frame_keys: HashMap::new(),
            stack_keys: HashMap::from([(Box::default(), 0)]),
        }
    }

    pub(crate) fn known(&self, pcs: &[u64]) -> Option<StackIx> {
        self.stack_keys.get(pcs).copied()
    }

    /// The stack of these addresses. `no_rule`: nothing was known about how the last frame returns.
    pub(crate) fn add(
        &mut self,
        pcs: &[u64],
        no_rule: bool,
        mut place: impl FnMut(u64) -> Place,
    ) -> StackIx {
        let mut frames = Vec::with_capacity(pcs.len());
        for (depth, &pc) in pcs.iter().enumerate() {
            let exact = depth == 0;
            let next = self.frames.len() as FrameIx;
            let ix = *self.frame_keys.entry((pc, exact)).or_insert(next);
            if ix == next {
                let Place { module, bias } = place(pc.wrapping_sub(u64::from(!exact)));
                self.frames.push(Frame {
                    pc,
                    module,
                    offset: pc.wrapping_sub(bias),
                    exact,
                    no_rule: false,
                    symbol: Symbol::Unknown(Reason::NotResolved),
                });
            }
            frames.push(ix);
        }
        if let Some(last) = frames.last().filter(|_| no_rule) {
            self.frames[*last as usize].no_rule = true;
        }
        let ix = self.stacks.len() as StackIx;
        self.stacks.push(frames);
        self.stack_keys.insert(pcs.into(), ix);
        ix
    }
}
