//! The call stacks of one process image.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_profile::{Frame, FrameIx, Module, ModuleIx, StackIx};

use crate::code::{Code, Function};
use crate::files::{Files, KeptFile};
use crate::functions::Found;
use crate::hotspot::{HotSpot, Kind};
use crate::image::Image;
use crate::intern::{Interner, Place};
use crate::maps::{self, Mapping, Source, VDSO};
use crate::reads::{Around, Reads};
use crate::walk::{by_blob, by_frame_pointer, interpreted_method, native, Copy, Rules, Step};
use crate::{Placed, Regs, MAX_FRAMES};

/// Shortest time between two looks at the map of a process for addresses that it does not hold.
const REFRESH_EVERY: Duration = Duration::from_millis(20);
/// It is that many times as long as the look took, up to a limit: maps of thousands of threads are long, and generated
/// code leads to addresses that no map holds.
const REFRESH_PAUSE: u32 = 200;
const REFRESH_AT_LATEST: Duration = Duration::from_millis(250);
/// Pages whose mapping is remembered.
const HINTS: usize = 256;
/// Shortest time between two looks for a map of generated code.
const JIT_MAP_EVERY: Duration = Duration::from_secs(1);

/// The call stacks of one process image; after an `exec` comes another.
///
/// An address is looked up in the map as it was when the address was first met. Where a file was unmapped and another took
/// its place, an address that was met under the first one keeps its module.
pub struct Unwinder {
    pid: u32,
    files: Files,
    reads: Reads,
    /// The directory in `/proc` that answers for the process.
    dir: PathBuf,
    /// By address.
    regions: Vec<Region>,
    /// Where in `regions` the address was that was last asked for, by its page: stacks meet the same pages again and again.
    hints: [u16; HINTS],
    rules: Rules,
    modules: Vec<Module>,
    /// Their images, where they could be read.
    images: Vec<Option<Arc<Image>>>,
    /// Modules by file and bias (first address where the file could not be read).
    module_keys: HashMap<(Source, u64), ModuleIx>,
    stacks: Interner,
    /// The stack being walked, and where each of its frames but the last ends.
    pcs: Vec<u64>,
    ends: Vec<u64>,
    /// Before this, the map is not looked at again.
    look_again: Option<Instant>,
    missed: u64,
    jit_map: Option<File>,
    looked_for_jit_map: Option<Instant>,
    /// The virtual machine that generates code here.
    hotspot: Option<Box<HotSpot>>,
    code: Vec<u8>,
    function: Option<Found>,
}

/// An executable mapping and what became of its file.
struct Region {
    mapping: Mapping,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// No address in it was met yet.
    New,
    /// Generated code.
    NoFile,
    /// A file's.
    File { module: ModuleIx, rules: bool },
}

/// All that is known about a process's code at its end.
#[derive(Debug, Default)]
pub struct Unwound {
    /// Mapped files that addresses were met in.
    pub modules: Vec<Module>,
    /// Code addresses.
    pub frames: Vec<Frame>,
    /// Call stacks, leaf first. Stack 0 is empty: unknown.
    pub stacks: Vec<Vec<FrameIx>>,
    /// The files of modules, for reading symbols; without those beyond the limit of open files.
    pub files: Vec<(ModuleIx, Arc<KeptFile>)>,
    /// What the process's compiler wrote about generated code, `/tmp/perf-PID.map` in the process's own view; or the same of
    /// what its virtual machine keeps in memory.
    pub jit_map: Option<File>,
    /// Stacks that consist of their leaf only because the process was gone before its map was read.
    pub missed: u64,
}

impl std::fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinder")
            .field("pid", &self.pid)
            .field("modules", &self.modules.len())
            .field("stacks", &self.stacks.stacks.len())
            .finish_non_exhaustive()
    }
}

impl Unwinder {
    /// For process `pid`. Nothing is read before the first stack.
    pub fn new(pid: u32, files: &Files) -> Self {
        Self {
            pid,
            files: files.clone(),
            reads: Reads::default(),
            dir: PathBuf::new(),
            regions: Vec::new(),
            hints: [0; HINTS],
            rules: Rules::new(),
            modules: Vec::new(),
            images: Vec::new(),
            module_keys: HashMap::new(),
            stacks: Interner::new(),
            pcs: Vec::with_capacity(MAX_FRAMES),
            ends: Vec::with_capacity(MAX_FRAMES),
            look_again: None,
            missed: 0,
            jit_map: None,
            looked_for_jit_map: None,
            hotspot: None,
            code: Vec::new(),
            function: None,
        }
    }

    /// Reads the process's memory and map inside of `around`.
    pub fn reading(mut self, around: Around) -> Self {
        self.reads = Reads(around);
        self
    }

    /// The stack of a thread with these registers, whose stack memory from `regs.sp` upwards is `bytes`. 0 =
    /// nothing is known.
    pub fn stack(&mut self, regs: Regs, bytes: &[u8]) -> StackIx {
        self.stack_from(regs, bytes, true)
    }

    /// The same of somebody who is at rest, by a call that saved these registers: `regs.ip` is where it returns to.
    pub fn stack_at_rest(&mut self, regs: Regs, bytes: &[u8]) -> StackIx {
        self.stack_from(regs, bytes, false)
    }

    fn stack_from(&mut self, regs: Regs, bytes: &[u8], interrupted: bool) -> StackIx {
        if regs.ip == 0 {
            return 0;
        }
        let mut pcs = std::mem::take(&mut self.pcs);
        pcs.clear();
        let no_rule = self.walk(regs, bytes, interrupted, &mut pcs);
        let ix = match self.stacks.known(&pcs) {
            Some(ix) => ix,
            None => {
                let (regions, modules) = (&self.regions, &self.modules);
                let place = |address| place(regions, modules, address);
                self.stacks.add(&pcs, no_rule, place)
            }
        };
        self.pcs = pcs;
        ix
    }

    /// The frames of an interrupted thread, innermost first, as far as the files that the process
    /// has mapped say where they end: nothing is inferred from frame pointers.
    pub fn frames(&mut self, regs: Regs, bytes: &[u8]) -> Vec<Placed> {
        let mut pcs = std::mem::take(&mut self.pcs);
        pcs.clear();
        self.walk(regs, bytes, true, &mut pcs);
        let ends = std::mem::take(&mut self.ends);
        let mut frames = Vec::with_capacity(ends.len());
        for (&pc, &end) in pcs.iter().zip(&ends) {
            let is_leaf = frames.is_empty();
            if !self.has_rules(pc.wrapping_sub(u64::from(!is_leaf))) {
                break;
            }
            frames.push(Placed { pc, is_leaf, end });
        }
        (self.pcs, self.ends) = (pcs, ends);
        frames
    }

    fn has_rules(&mut self, address: u64) -> bool {
        matches!(self.find(address), Some(State::File { rules: true, .. }))
    }

    /// Reads the files of all mappings now, so that later walks need not.
    pub fn open_all(&mut self) {
        self.refresh();
        for at in 0..self.regions.len() {
            if matches!(self.regions[at].state, State::New) {
                self.open(at);
            }
        }
    }

    /// The innermost address of a stack.
    pub fn leaf(&self, stack: StackIx) -> Option<u64> {
        let frame = *self.stacks.stacks.get(stack as usize)?.first()?;
        Some(self.stacks.frames.get(frame as usize)?.pc)
    }

    /// The addresses of a stack, innermost first.
    pub fn pcs(&self, stack: StackIx) -> impl Iterator<Item = u64> + '_ {
        let frames = self.stacks.stacks.get(stack as usize);
        frames
            .into_iter()
            .flatten()
            .filter_map(|frame| self.stacks.frames.get(*frame as usize).map(|f| f.pc))
    }

    /// Reads the process's map again. Addresses that the map does not hold lead to the same.
    pub fn refresh(&mut self) {
        let started = Instant::now();
        let read = self.reads.of(|| maps::read(self.pid));
        let pause = started.elapsed() * REFRESH_PAUSE;
        self.look_again = Some(started + pause.clamp(REFRESH_EVERY, REFRESH_AT_LATEST));
        let Some((dir, mappings)) = read else {
            return; // what was known still holds for stacks that come late
        };
        self.dir = dir;
        let mut old = std::mem::take(&mut self.regions).into_iter().peekable();
        for mapping in mappings {
            while let Some(gone) = old.next_if(|region| region.mapping.lo < mapping.lo) {
                self.rules.remove(gone.mapping.lo..gone.mapping.hi);
            }
            let same = old.next_if(|region| region.mapping.lo == mapping.lo);
            self.regions.push(match same {
                Some(region) if region.mapping == mapping => region,
                changed => {
                    if let Some(old) = changed {
                        self.rules.remove(old.mapping.lo..old.mapping.hi);
                    }
                    let state = State::New;
                    Region { mapping, state }
                }
            });
        }
        for gone in old {
            self.rules.remove(gone.mapping.lo..gone.mapping.hi);
        }
    }

    /// The code around `ip`: `before` bytes before it and `after` from it on, or as many of them as its mapping has.
    /// From the mapped file; generated code from the process's memory.
    pub fn code(&mut self, ip: u64, before: usize, after: usize) -> Option<Code<'_>> {
        let state = self.find(ip)?;
        let mapping = &region(&self.regions, ip)?.mapping;
        let lo = ip.saturating_sub(before as u64).max(mapping.lo);
        let hi = ip.saturating_add(after as u64).min(mapping.hi);
        let length = usize::try_from(hi.checked_sub(lo)?).ok()?;
        self.code.resize(length, 0);
        let read = match state {
            State::File { module, .. } => {
                let image = self.images.get(module as usize)?.as_ref()?;
                image.read_at(&mut self.code, mapping.offset + (lo - mapping.lo))?
            }
            State::NoFile | State::New => {
                let memory = File::open(self.dir.join("mem")).ok()?;
                self.reads.of(|| memory.read_at(&mut self.code, lo).ok())?
            }
        };
        let bytes = self.code.get(..read).filter(|bytes| !bytes.is_empty())?;
        Some(Code { lo, bytes })
    }

    /// Whether `pc` is in a mapped file.
    pub fn is_in_file(&mut self, pc: u64) -> bool {
        matches!(self.find(pc), Some(State::File { .. }))
    }

    /// The function that covers `pc`, from the file's own symbol tables.
    pub fn function(&mut self, pc: u64) -> Option<Function<'_>> {
        let (image, bias) = self.image(pc)?;
        let found = image.function(pc.wrapping_sub(bias))?;
        let found = self.function.insert(found);
        Some(Function {
            name: &found.name,
            lo: found.range.start.wrapping_add(bias),
            hi: found.range.end.wrapping_add(bias),
        })
    }

    /// The file that is mapped at `pc`, and what is added to its addresses.
    pub(crate) fn image(&mut self, pc: u64) -> Option<(&Image, u64)> {
        let State::File { module, .. } = self.find(pc)? else {
            return None;
        };
        let image = self.images.get(module as usize)?.as_ref()?;
        Some((image, self.modules.get(module as usize)?.bias))
    }

    /// Gives back the memory that only walking needs, 30 KB at least: of a process that has ended there are no more
    /// stacks. If there are, it is taken again.
    pub fn rest(&mut self) {
        self.rules.rest();
    }

    /// Gives out everything.
    pub fn finish(mut self) -> Unwound {
        if self
            .regions
            .iter()
            .any(|r| matches!(r.state, State::NoFile))
        {
            self.looked_for_jit_map = None;
            self.find_jit_map();
        }
        let of_machine = self
            .hotspot
            .and_then(|machine| machine.map(self.jit_map.as_ref()));
        let files = (0..)
            .zip(&self.images)
            .filter_map(|(ix, image)| Some((ix, image.as_ref()?.file.clone()?)))
            .collect();
        Unwound {
            modules: self.modules,
            frames: self.stacks.frames,
            stacks: self.stacks.stacks,
            files,
            jit_map: of_machine.or(self.jit_map),
            missed: self.missed,
        }
    }

    /// Walks the stack; whether it stopped for lack of rules. `interrupted`: somewhere, and not in a call.
    fn walk(&mut self, regs: Regs, bytes: &[u8], interrupted: bool, pcs: &mut Vec<u64>) -> bool {
        let copy = Copy::new(regs.sp, bytes);
        let mut state = native(regs);
        let mut pc = regs.ip;
        pcs.push(pc);
        self.ends.clear();
        let mut place = self.find(pc);
        if self.regions.is_empty() {
            self.missed += 1;
            return false;
        }
        while pcs.len() < MAX_FRAMES {
            let leaf = interrupted && pcs.len() == 1;
            let step = match place {
                Some(State::File { rules: true, .. }) => {
                    self.rules.step(pc, leaf, &mut state, &copy)
                }
                Some(State::NoFile) if self.hotspot.is_some() => {
                    let blob = self.hotspot.as_mut().and_then(|machine| {
                        machine.at(&self.dir, pc.wrapping_sub(u64::from(!leaf)))
                    });
                    let is_code = |address| region(&self.regions, address).is_some();
                    if blob.is_some_and(|blob| blob.kind == Kind::Interpreter) {
                        let method = interpreted_method(&state, &copy).and_then(|method| {
                            self.hotspot.as_mut()?.interpreted(&self.dir, method)
                        });
                        if let (Some(method), Some(last)) = (method, pcs.last_mut()) {
                            *last = method;
                        }
                    }
                    match blob {
                        Some(blob) => by_blob(leaf, &blob, &mut state, &copy, is_code),
                        None => by_frame_pointer(leaf, &mut state, &copy, is_code),
                    }
                }
                Some(_) => {
                    let is_code = |address| region(&self.regions, address).is_some();
                    by_frame_pointer(leaf, &mut state, &copy, is_code)
                }
                None => Step::NoRule,
            };
            match step {
                Step::Caller(caller) => {
                    pc = caller;
                    self.ends.push(state.sp());
                }
                Step::End => return false,
                Step::NoRule => return true,
            }
            let known = matches!(place, Some(State::File { rules: true, .. }));
            place = self.find(pc.wrapping_sub(1));
            if place.is_none() {
                // No code is there: what was taken for a return address is none.
                return !known;
            }
            pcs.push(pc);
        }
        false
    }

    /// What is at an address, after another look at the map if nothing is known.
    fn find(&mut self, address: u64) -> Option<State> {
        let page = (address >> 12) as usize % HINTS;
        let hint = self.regions.get(usize::from(self.hints[page]));
        if let Some(region) = hint.filter(|region| region.mapping.holds(address)) {
            if !matches!(region.state, State::New) {
                return Some(region.state);
            }
        }
        let at = match position(&self.regions, address) {
            Some(at) => at,
            None if self.look_again.is_some_and(|at| Instant::now() < at) => return None,
            None => {
                self.refresh();
                position(&self.regions, address)?
            }
        };
        self.hints[page] = u16::try_from(at).unwrap_or(0);
        match self.regions.get(at)?.state {
            State::New => Some(self.open(at)),
            state => Some(state),
        }
    }

    /// Finds out what is in a mapping.
    fn open(&mut self, at: usize) -> State {
        let mapping = self.regions[at].mapping.clone();
        let state = match &mapping.source {
            Some(source) => self.load(&mapping, source),
            None => {
                self.find_jit_map();
                State::NoFile
            }
        };
        self.regions[at].state = state;
        state
    }

    /// Reads the file of a mapping and takes over its rules.
    fn load(&mut self, mapping: &Mapping, source: &Source) -> State {
        let image = if source.path == VDSO {
            self.files.vdso(own_vdso)
        } else {
            let open = || crate::open::open(&self.dir, mapping, source).ok();
            self.reads.of(open).and_then(|file| self.files.image(file))
        };
        let found = image.and_then(|image| {
            let bias = image.bias(mapping.lo, mapping.hi, mapping.offset)?;
            Some((bias, image.range()?, image))
        });
        let Some((bias, (first, end), image)) = found else {
            if source.is_memory() {
                self.find_jit_map();
                return State::NoFile;
            }
            let bias = mapping.lo.wrapping_sub(mapping.offset);
            let module = self.module(source, bias, || Module {
                lo: mapping.lo,
                hi: mapping.hi,
                ..Module::default()
            });
            let rules = false;
            return State::File { module, rules };
        };
        let module = self.module(source, bias, || Module {
            build_id: image.build_id.clone(),
            lo: first.wrapping_add(bias),
            hi: end.wrapping_add(bias),
            ..Module::default()
        });
        if let (None, Some(file)) = (&self.hotspot, &image.file) {
            self.hotspot = HotSpot::of(&source.path, file, bias, self.reads).map(Box::new);
        }
        let rules = image.has_rules();
        if rules {
            let within = mapping.lo.wrapping_sub(bias)..mapping.hi.wrapping_sub(bias);
            for (code, rules) in image.rules(first, within) {
                self.rules.add(framehop::Module::new(
                    source.path.clone(),
                    code.start.wrapping_add(bias)..code.end.wrapping_add(bias),
                    bias.wrapping_add(first),
                    rules,
                ));
            }
        }
        self.images[module as usize] = Some(image);
        State::File { module, rules }
    }

    fn module(&mut self, source: &Source, bias: u64, new: impl FnOnce() -> Module) -> ModuleIx {
        let next = self.modules.len() as ModuleIx;
        let ix = *self
            .module_keys
            .entry((source.clone(), bias))
            .or_insert(next);
        if ix == next {
            self.modules.push(Module {
                path: source.path.clone(),
                bias,
                ..new()
            });
            self.images.push(None);
        }
        ix
    }

    /// Opens the map of generated code, now and then until it is there.
    fn find_jit_map(&mut self) {
        let early = |at: Instant| at.elapsed() < JIT_MAP_EVERY;
        if self.jit_map.is_some() || self.looked_for_jit_map.is_some_and(early) {
            return;
        }
        self.looked_for_jit_map = Some(Instant::now());
        self.jit_map = crate::open::jit_map(&self.dir);
    }
}

fn position(regions: &[Region], address: u64) -> Option<usize> {
    let at = regions
        .partition_point(|region| region.mapping.lo <= address)
        .checked_sub(1)?;
    regions[at].mapping.holds(address).then_some(at)
}

fn region(regions: &[Region], address: u64) -> Option<&Region> {
    regions.get(position(regions, address)?)
}

fn place(regions: &[Region], modules: &[Module], address: u64) -> Place {
    match region(regions, address).map(|region| region.state) {
        Some(State::File { module, .. }) => Place {
            module: Some(module),
            bias: modules.get(module as usize).map_or(0, |m| m.bias),
        },
        _ => Place::default(),
    }
}

/// The image of this process's vdso.
fn own_vdso() -> Option<Vec<u8>> {
    let (_, mappings) = maps::read(std::process::id())?;
    let vdso = |m: &&Mapping| m.source.as_ref().is_some_and(|s| s.path == VDSO);
    let mapping = mappings.iter().find(vdso)?;
    let mut bytes = vec![0; usize::try_from(mapping.hi - mapping.lo).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, mapping.lo).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Files, Unwinder, Unwound};

    #[test]
    fn unwinders_may_move_between_threads() {
        fn moves<T: Send + 'static>(value: T) {
            assert!(std::thread::spawn(move || drop(value)).join().is_ok());
        }
        moves(Unwinder::new(1, &Files::new()));
        moves(Unwound::default());
    }
}
