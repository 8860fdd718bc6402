//! Identities of locks and code that hold in every run of a program: variables, creation sites, offsets.

use std::collections::HashMap;

use convoy_profile::{FrameIx, ObjectIx, Process};

/// A place in the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodePlace {
    /// File name of the module.
    pub module: String,
    /// Address in the module.
    pub offset: u64,
    /// Innermost function there that is no wrapper, inlined ones included; empty = not known.
    pub function: String,
    /// Source file, may be empty.
    pub file: String,
    /// Line, 0 = not known.
    pub line: u32,
}

impl CodePlace {
    /// `function()`, `function(int)`, or `module+0x12`.
    pub fn name(&self) -> String {
        match self.function.as_str() {
            "" => format!("{}+{:#x}", self.module, self.offset),
            function if function.ends_with(')') => function.to_owned(),
            function => format!("{function}()"),
        }
    }
}

/// A lock, whatever its address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKey {
    /// It lies in a variable.
    Variable {
        /// File name of the module.
        module: String,
        /// Symbol and offset.
        name: String,
    },
    /// It was initialised at run time.
    Created {
        /// Return addresses of the initialisation, innermost first, as offsets in their modules.
        site: Vec<(String, u64)>,
        /// Locks that were initialised there before it.
        order: u32,
    },
}

/// The identities of one run's locks and places.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunKeys {
    /// By index of the process's objects in the profile; `None` = nothing tells it from others.
    pub locks: Vec<Option<LockKey>>,
    /// By index of the process's frames.
    pub places: Vec<CodePlace>,
    /// Names of its threads with their start routine: threads of one name are of one kind.
    pub threads: Vec<String>,
}

impl RunKeys {
    /// Of a process.
    pub fn of(process: &Process) -> Self {
        let places: Vec<CodePlace> = (0..process.frames.len())
            .map(|ix| place(process, ix as FrameIx))
            .collect();
        let mut created: HashMap<Vec<(String, u64)>, u32> = HashMap::new();
        let locks = (0..process.objects.len()).map(|ix| {
            let key = lock_key(process, &places, ix as ObjectIx)?;
            let LockKey::Created { site, .. } = key else {
                return Some(key);
            };
            let count = created.entry(site.clone()).or_default();
            *count += 1;
            Some(LockKey::Created {
                site,
                order: *count - 1,
            })
        });
        let locks = locks.collect();
        let start = |thread: &convoy_profile::Thread| {
            let place = thread.start.and_then(|ix| places.get(ix as usize));
            place.map_or_else(String::new, |place| {
                format!("{}+{:#x}", place.module, place.offset)
            })
        };
        let threads = process.threads.iter();
        let threads = threads.map(|thread| format!("{} {}", pattern(&thread.name), start(thread)));
        let threads = threads.collect();
        Self {
            locks,
            threads,
            places,
        }
    }

    /// The place of a frame; an empty one if there is no such frame.
    pub fn place(&self, frame: FrameIx) -> CodePlace {
        self.places.get(frame as usize).cloned().unwrap_or_default()
    }
}

/// A thread's name with each number replaced by `#`: those of one pool have one pattern.
fn pattern(name: &str) -> String {
    let mut pattern = String::new();
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if pattern.ends_with('#') => {}
            true => pattern.push('#'),
            false => pattern.push(c),
        }
    }
    pattern
}

fn lock_key(process: &Process, places: &[CodePlace], ix: ObjectIx) -> Option<LockKey> {
    let object = process.objects.get(ix as usize)?;
    if let Some(name) = &object.symbol {
        let module = object.module.map_or("", |ix| module_name(process, ix));
        return Some(LockKey::Variable {
            module: module.to_owned(),
            name: name.clone(),
        });
    }
    let stack = process.stacks.get(object.init_stack as usize)?;
    if stack.is_empty() {
        return None;
    }
    let frames = stack.iter().filter_map(|ix| places.get(*ix as usize));
    let site = frames.map(|place| (place.module.clone(), place.offset));
    Some(LockKey::Created {
        site: site.collect(),
        order: 0,
    })
}

fn place(process: &Process, ix: FrameIx) -> CodePlace {
    let Some(frame) = process.frames.get(ix as usize) else {
        return CodePlace::default();
    };
    let module = frame.module.map_or("", |ix| module_name(process, ix));
    // A lock wrapper that was inlined says nothing: the function that it was inlined into does.
    let names = convoy_model::expand(process, &[ix]);
    let names = convoy_model::telling(&names).filter(|at| !at.function.is_empty());
    CodePlace {
        module: module.to_owned(),
        offset: frame.offset,
        function: names.map_or_else(String::new, |at| at.function.clone()),
        file: names.map_or_else(String::new, |at| at.file.clone()),
        line: names.map_or(0, |at| at.line),
    }
}

fn module_name(process: &Process, ix: convoy_profile::ModuleIx) -> &str {
    let module = process.modules.get(ix as usize);
    let path = module.map_or("", |module| module.path.as_str());
    path.rsplit('/').next().unwrap_or_default()
}
