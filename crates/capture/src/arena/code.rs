//! Modules, frames and stacks: the agent's ids become indices, and only what is used is kept.

use std::collections::HashMap;

use convoy_abi as abi;
use convoy_profile::{Frame, FrameIx, Module, ModuleIx, Reason, StackIx, Symbol};

use super::view::View;

/// How many modules to look back through for one that holds an address: ranges may overlap where a
/// file was unloaded and another took its place.
const LOOK_BACK: usize = 16;

pub(super) struct Code<'v, 'a> {
    view: &'v View<'a>,
    modules: Vec<Module>,
    /// Index of each module by the agent's id.
    module_ids: HashMap<u32, ModuleIx>,
    /// Indices of modules by first address; the ones still mapped after the others of the same address.
    by_address: Vec<ModuleIx>,
    by_id: HashMap<u32, abi::Frame>,
    /// Return addresses that the agent knows.
    by_pc: HashMap<u64, abi::Frame>,
    frames: Vec<Frame>,
    frame_keys: HashMap<(u64, Option<ModuleIx>, bool), FrameIx>,
    stacks: Vec<Vec<FrameIx>>,
    stack_refs: HashMap<abi::Ref, StackIx>,
    stack_keys: HashMap<Vec<FrameIx>, StackIx>,
}

impl<'v, 'a> Code<'v, 'a> {
    pub fn new(view: &'v View<'a>) -> Self {
        let mut code = Self {
            view,
            modules: Vec::new(),
            module_ids: HashMap::new(),
            by_address: Vec::new(),
            by_id: HashMap::new(),
            by_pc: HashMap::new(),
            frames: Vec::new(),
            frame_keys: HashMap::new(),
            stacks: vec![Vec::new()], // 0: unknown
            stack_refs: HashMap::from([(0, 0)]),
            stack_keys: HashMap::from([(Vec::new(), 0)]),
        };
        code.read_modules();
        code.read_frames();
        code
    }

    fn read_modules(&mut self) {
        let mut unloaded = Vec::new();
        for block in self.view.blocks(abi::CV_BLOCK_MODULES) {
            for (_, raw) in self.view.items::<abi::Module>(block) {
                let Some(module) = super::modules::module(&raw) else {
                    continue;
                };
                let ix = self.modules.len() as ModuleIx;
                self.modules.push(module);
                self.module_ids.entry(raw.id).or_insert(ix);
                self.by_address.push(ix);
                unloaded.push(raw.unloaded_ns != 0);
            }
        }
        let modules = &self.modules;
        self.by_address.sort_by_key(|ix| {
            let ix = *ix as usize;
            (modules[ix].lo, !unloaded[ix], ix)
        });
    }

    fn read_frames(&mut self) {
        for block in self.view.blocks(abi::CV_BLOCK_FRAMES) {
            for (i, (_, raw)) in self.view.items::<abi::Frame>(block).enumerate() {
                if raw.pc == 0 {
                    continue;
                }
                self.by_id
                    .entry(block.first_id.saturating_add(i as u32))
                    .or_insert(raw);
                if raw.flags & abi::CV_FRAME_EXACT == 0 {
                    self.by_pc.insert(raw.pc, raw);
                }
            }
        }
    }

    /// The frame of an agent's frame id; `None` for 0 and ids that it never gave out.
    pub fn frame(&mut self, id: u32) -> Option<FrameIx> {
        let raw = *self.by_id.get(&id)?;
        Some(self.intern_frame(&raw))
    }

    /// The frame of a return address.
    pub fn frame_of_return_address(&mut self, ra: u64) -> FrameIx {
        if let Some(raw) = self.by_pc.get(&ra).copied() {
            return self.intern_frame(&raw);
        }
        let module = self.module_of(ra.wrapping_sub(1));
        let bias = module.map_or(0, |ix| self.modules[ix as usize].bias);
        self.intern(ra, module, ra.wrapping_sub(bias), false, false)
    }

    fn intern_frame(&mut self, raw: &abi::Frame) -> FrameIx {
        let module = self.module_ids.get(&raw.module).copied();
        let offset = if module.is_some() { raw.offset } else { raw.pc };
        let exact = raw.flags & abi::CV_FRAME_EXACT != 0;
        self.intern(
            raw.pc,
            module,
            offset,
            exact,
            raw.flags & abi::CV_FRAME_NO_RULE != 0,
        )
    }

    /// The agent tells apart what is the end of a stack and what is not; here one address is one frame.
    /// Whether it has an unwind rule is a property of the address.
    fn intern(
        &mut self,
        pc: u64,
        module: Option<ModuleIx>,
        offset: u64,
        exact: bool,
        no_rule: bool,
    ) -> FrameIx {
        let next = self.frames.len() as FrameIx;
        let ix = *self.frame_keys.entry((pc, module, exact)).or_insert(next);
        if ix == next {
            let symbol = Symbol::Unknown(Reason::NotResolved);
            self.frames.push(Frame {
                pc,
                module,
                offset,
                exact,
                no_rule,
                symbol,
            });
        } else {
            self.frames[ix as usize].no_rule |= no_rule;
        }
        ix
    }

    /// The stack of a reference; 0 (unknown) for one that names no stack.
    pub fn stack(&mut self, reference: abi::Ref) -> StackIx {
        if let Some(ix) = self.stack_refs.get(&reference) {
            return *ix;
        }
        let ids = self.view.stack(reference).unwrap_or_else(|| {
            self.view.mark_damaged();
            Vec::new()
        });
        let frames: Vec<FrameIx> = ids.into_iter().map_while(|id| self.frame(id)).collect();
        let next = self.stacks.len() as StackIx;
        let ix = *self.stack_keys.entry(frames.clone()).or_insert(next);
        if ix == next {
            self.stacks.push(frames);
        }
        self.stack_refs.insert(reference, ix);
        ix
    }

    /// The module that holds an address, one that is still mapped before one that was unloaded.
    pub fn module_of(&self, address: u64) -> Option<ModuleIx> {
        let next = self
            .by_address
            .partition_point(|ix| self.modules[*ix as usize].lo <= address);
        let candidates = self.by_address.get(next.saturating_sub(LOOK_BACK)..next)?;
        candidates
            .iter()
            .rev()
            .find(|ix| address < self.modules[**ix as usize].hi)
            .copied()
    }

    /// The module of an agent's id.
    pub fn module(&self, id: u32) -> Option<ModuleIx> {
        self.module_ids.get(&id).copied()
    }

    pub fn finish(self) -> (Vec<Module>, Vec<Frame>, Vec<Vec<FrameIx>>) {
        (self.modules, self.frames, self.stacks)
    }
}
