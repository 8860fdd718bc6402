//! Call stacks for people: inlined functions expanded, and the frame to show.

use std::collections::{HashMap, HashSet};

use convoy_profile::{Frame, FrameIx, Module, Process, Reason, StackIx, Symbol};

use crate::languages::{is_agent, is_language, is_virtual_machine};
use crate::own_code::{is_of_others, own_frame};
use crate::programs::base_name;
use crate::sync_code::is_fast_path;
use crate::wrappers::passes_on;
use crate::{ProcessId, Site, SiteFrame, SiteId, SyncCode};

/// Makes sites of a process's stacks, each when it is first asked for.
pub(super) struct Sites<'p> {
    process: &'p Process,
    files: FileNames<'p>,
    /// Those of modules that are not the program's.
    foreign: HashSet<&'p str>,
    id: ProcessId,
    by_stack: HashMap<StackIx, SiteId>,
    by_frames: HashMap<Vec<FrameIx>, SiteId>,
}

impl<'p> Sites<'p> {
    pub(super) fn new(process: &'p Process, id: ProcessId) -> Self {
        let files = FileNames::of(process);
        Self {
            process,
            foreign: foreign(process, &files),
            files,
            id,
            by_stack: HashMap::new(),
            by_frames: HashMap::new(),
        }
    }

    /// The frames of a stack, leaf first; none if it is unknown.
    pub(super) fn frames_of(&self, stack: StackIx) -> &'p [FrameIx] {
        self.process
            .stacks
            .get(stack as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// The site of a stack.
    pub(super) fn of_stack(&mut self, stack: StackIx, sites: &mut Vec<Site>) -> SiteId {
        if let Some(&id) = self.by_stack.get(&stack) {
            return id;
        }
        let id = self.of_frames(self.frames_of(stack), sites);
        self.by_stack.insert(stack, id);
        id
    }

    /// The same, `None` for the unknown stack.
    pub(super) fn known(&mut self, stack: StackIx, sites: &mut Vec<Site>) -> Option<SiteId> {
        (!self.frames_of(stack).is_empty()).then(|| self.of_stack(stack, sites))
    }

    /// The site of these frames, leaf first.
    pub(super) fn of_frames(&mut self, frames: &[FrameIx], sites: &mut Vec<Site>) -> SiteId {
        if let Some(&id) = self.by_frames.get(frames) {
            return id;
        }
        let all: Vec<SiteFrame> = frames.iter().flat_map(|&ix| self.expand(ix)).collect();
        let sync = SyncCode::of(&all);
        let fast_path = sync.is_none() && is_fast_path(&all);
        let expanded = own(all);
        let shown = shown(&expanded);
        let id = SiteId(sites.len() as u32);
        sites.push(Site {
            process: self.id,
            shown,
            own: own_frame(&expanded, shown, |module| self.foreign.contains(module)),
            frames: expanded,
            sync,
            fast_path,
        });
        self.by_frames.insert(frames.to_vec(), id);
        id
    }

    /// One code address with the functions inlined there, innermost first.
    pub(super) fn expand(&self, ix: FrameIx) -> Vec<SiteFrame> {
        expand_frame(self.process, &self.files, ix)
    }
}

/// One code address of a process with the functions inlined there, innermost first.
pub(super) fn expand_frame(
    process: &Process,
    files: &FileNames<'_>,
    ix: FrameIx,
) -> Vec<SiteFrame> {
    let Some(frame) = process.frames.get(ix as usize) else {
        return Vec::new();
    };
    let module = frame
        .module
        .and_then(|ix| files.0.get(ix as usize))
        .map_or_else(String::new, |name| (*name).to_owned());
    let begins = |at: usize| process.starts.get(at).map_or(0, |row| row.address);
    let row = process.starts.binary_search_by_key(&ix, |row| row.frame);
    expand(frame, module, row.map_or(0, begins))
}

/// Several of them, leaf first.
pub(crate) fn expand_all(process: &Process, frames: &[FrameIx]) -> Vec<SiteFrame> {
    let files = FileNames::of(process);
    let all = frames.iter();
    own(all
        .flat_map(|ix| expand_frame(process, &files, *ix))
        .collect())
}

/// What each module's file is called. The agent knows it as the dynamic linker does (`libz.so.1`), the kernel by its own name
/// (`libz.so.1.2.13`), and both have to call a function the same.
pub(super) struct FileNames<'p>(Vec<&'p str>);

impl<'p> FileNames<'p> {
    pub(super) fn of(process: &'p Process) -> Self {
        let key = |module: &'p Module| {
            let name = base_name(&module.path);
            // Without a build id another library may have been at the same place before.
            let library = match module.build_id.is_empty() {
                true => name.split(".so").next().unwrap_or(name),
                false => "",
            };
            let place = (module.bias, module.lo, module.hi);
            (place, module.build_id.as_slice(), library)
        };
        let mut shortest: HashMap<_, &'p str> = HashMap::new();
        for module in &process.modules {
            let name = base_name(&module.path);
            let known = shortest.entry(key(module)).or_insert(name);
            if (name.len(), name) < (known.len(), *known) {
                *known = name;
            }
        }
        let name = |module| shortest.get(&key(module)).copied();
        let all = process.modules.iter();
        Self(all.map(|module| name(module).unwrap_or_default()).collect())
    }
}

/// The files of the modules that are of the system or of a package. The executable is the program,
/// wherever it is.
fn foreign<'p>(process: &'p Process, files: &FileNames<'p>) -> HashSet<&'p str> {
    let modules = process.modules.iter().zip(&files.0);
    let others =
        modules.filter(|(module, _)| module.path != process.exe && is_of_others(&module.path));
    others.map(|(_, name)| *name).collect()
}

fn expand(frame: &Frame, module: String, start: u64) -> Vec<SiteFrame> {
    let locations = match &frame.symbol {
        Symbol::Known(locations) if !locations.is_empty() => locations,
        Symbol::Known(_) => return vec![unknown(frame, module, start, Reason::NoSymbol)],
        Symbol::Unknown(reason) => return vec![unknown(frame, module, start, *reason)],
    };
    let real = locations.len() - 1;
    let site_frame = |(at, location): (usize, &convoy_profile::Location)| SiteFrame {
        function: location.function.clone(),
        file: location.file.clone().unwrap_or_default(),
        line: location.line.unwrap_or(0),
        module: module.clone(),
        offset: frame.offset,
        start: if at == real { start } else { 0 },
        inlined: at < real,
        unknown: String::new(),
    };
    locations.iter().enumerate().map(site_frame).collect()
}

fn unknown(frame: &Frame, module: String, start: u64, reason: Reason) -> SiteFrame {
    let why = match reason {
        Reason::NotResolved => "symbols were not read",
        Reason::NoModule => "generated code, in no file",
        Reason::ModuleUnreadable => "the file is gone or not readable",
        Reason::ModuleChanged => "the file on disk is another build",
        Reason::NoSymbol => "the file has no symbol for it",
        Reason::BadSymbols => "the file's symbols could not be read",
    };
    SiteFrame {
        // Without a module the address itself is all that identifies it.
        offset: if frame.module.is_some() {
            frame.offset
        } else {
            frame.pc
        },
        module,
        start,
        unknown: why.into(),
        ..SiteFrame::default()
    }
}

/// A stack without the agent's frames: it is no part of the program. One of nothing else stays as it is.
fn own(frames: Vec<SiteFrame>) -> Vec<SiteFrame> {
    let program = |frame: &SiteFrame| !is_agent(&frame.module);
    if frames.iter().any(program) {
        frames.into_iter().filter(program).collect()
    } else {
        frames
    }
}

/// The innermost frame that says who wanted the lock, else the innermost one that has a name. A virtual machine
/// wants it for the code that it runs, if there is any.
pub(crate) fn shown(frames: &[SiteFrame]) -> usize {
    let telling = |frame: &SiteFrame| !passes_on(frame);
    let interpreted = |frame: &SiteFrame| telling(frame) && !is_virtual_machine(frame);
    let named = |frame: &SiteFrame| !frame.function.is_empty();
    frames
        .iter()
        .position(interpreted)
        .or_else(|| frames.iter().position(telling))
        .or_else(|| frames.iter().position(named))
        .unwrap_or(0)
}

/// The innermost frame of a loop that is the program's own: that it only waits is known already.
pub(crate) fn shown_loop(frames: &[SiteFrame]) -> usize {
    let own = |frame: &SiteFrame| !frame.function.is_empty() && !is_language(frame);
    frames.iter().position(own).unwrap_or_else(|| shown(frames))
}
