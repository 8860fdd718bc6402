//! Addresses to functions, source lines and inlined frames; objects to the variables that hold them.
//!
//! Pure but for reading files: the modules of a process, their separate debug files, and the map of
//! generated code. Nothing is fetched from a network and nothing is executed. What has no name
//! gets a [`Reason`] instead, and a file that is not the one that ran names nothing: build-ids are compared.
//!
//! Debug information is looked for in this order: the module itself; `.build-id/xx/yyyy.debug`
//! below each debug root; the `.gnu_debuglink`; debuginfod's local cache. Without DWARF, `.symtab` (there or in
//! `.gnu_debugdata`) and then `.dynsym` give functions without lines; Go programs have a table of their own, with lines.

#![forbid(unsafe_code)]

mod code;
mod demangle;
mod dwarf;
mod elf;
mod functions;
mod gopclntab;
mod import_names;
mod inlined;
mod jit;
mod kernel;
mod line_ranges;
mod listing;
mod locate;
mod low_level_locks;
mod module;
mod options;
mod scope;
mod sections;
mod shorten;
mod table;
mod thread_entry;
mod threads;
mod vdso;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use convoy_profile::{FunctionStart, Memory, ObjectKind, Process, Reason, Symbol};

pub use code::CodeFiles;
pub use demangle::demangle;
pub use inlined::inlined_into;
pub use kernel::{kernel_names, resolve_kernel};
pub use line_ranges::line_ranges;
pub use listing::{list_functions, ListedFunction};
pub use options::{Options, Stats};
pub use sections::{resolve_lines, resolve_words};
pub use shorten::shorten;
pub use thread_entry::is_generic_start;

use module::{has_closure, Job, Named};
use threads::Threads;

/// Names every frame of `process`, the variables of its objects, and says for every module where
/// the names came from.
pub fn resolve(process: &mut Process, options: &Options) -> Stats {
    place_objects(process);
    let jobs = jobs(process, options);
    let named = run(&jobs, options);

    let mut stats = Stats::default();
    process.starts.clear();
    for module in &mut process.modules {
        module.symbols = "none: no address in it was recorded".into();
    }
    let (mut program, mut libraries_do) = (Threads::default(), false);
    for (job, named) in jobs.iter().zip(named) {
        stats.debug_bytes += named.debug_bytes;
        for (frame, symbol) in job.frames.iter().zip(named.frames) {
            process.frames[frame.ix].symbol = symbol;
        }
        for (frame, start) in job.frames.iter().zip(named.starts) {
            if let (Ok(frame), Some(address)) = (u32::try_from(frame.ix), start) {
                process.starts.push(FunctionStart { frame, address });
            }
        }
        for (object, symbol) in job.objects.iter().zip(named.objects) {
            process.objects[object.ix].symbol = symbol;
        }
        let module = &mut process.modules[job.ix];
        module.symbols = named.source;
        match module.path == process.exe {
            true => program = named.threads,
            false => libraries_do |= named.threads.makes,
        }
    }
    process.makes_threads |= program.may_be_several(libraries_do);
    import_names::name(process, options);
    let untold = |row: &FunctionStart| {
        let symbol = process.frames.get(row.frame as usize).map(|f| &f.symbol);
        symbol.is_some_and(|symbol| matches!(symbol, Symbol::Unknown(_)) || has_closure(symbol))
    };
    process.starts.retain(untold);
    process.starts.sort_unstable();
    jit::resolve(process, options);

    for frame in &process.frames {
        match frame.symbol {
            Symbol::Known(_) => stats.frames_known += 1,
            Symbol::Unknown(_) => stats.frames_unknown += 1,
        }
    }
    stats.objects_named = process
        .objects
        .iter()
        .filter(|o| o.symbol.is_some())
        .count();
    stats
}

/// Finds the module of objects that the recorder left without one, and marks module data as static.
fn place_objects(process: &mut Process) {
    for object in &mut process.objects {
        if object.kind == ObjectKind::Thread || matches!(object.memory, Memory::Stack(_)) {
            continue;
        }
        if object.module.is_none() && object.memory == Memory::Unknown {
            let mut holders = (0u32..)
                .zip(&process.modules)
                .filter(|(_, m)| (m.lo..m.hi).contains(&object.addr));
            // Two modules in one place: one was unloaded, and which one held the object is not known.
            object.module = match (holders.next(), holders.next()) {
                (Some((ix, _)), None) => Some(ix),
                _ => None,
            };
        }
        if object
            .module
            .is_some_and(|ix| (ix as usize) < process.modules.len())
        {
            object.memory = Memory::Static;
        }
    }
}

/// One job for each module that an address falls into, the heaviest files first.
fn jobs(process: &Process, options: &Options) -> Vec<Job> {
    let mut jobs: Vec<Job> = process
        .modules
        .iter()
        .enumerate()
        .map(|(ix, module)| Job::new(ix, module, options))
        .collect();
    for (ix, frame) in process.frames.iter().enumerate() {
        if let Some(job) = frame.module.and_then(|m| jobs.get_mut(m as usize)) {
            job.add_frame(ix, frame);
        }
    }
    for (ix, object) in process.objects.iter().enumerate() {
        if object.kind == ObjectKind::Thread || object.memory != Memory::Static {
            continue;
        }
        if let Some(job) = object.module.and_then(|m| jobs.get_mut(m as usize)) {
            job.add_object(ix, object);
        }
    }
    jobs.retain(|job| !job.frames.is_empty() || !job.objects.is_empty());
    jobs.sort_by_key(|job| std::cmp::Reverse(job.file_bytes()));
    jobs
}

/// Runs the jobs, in parallel where more than one is worth a thread.
fn run(jobs: &[Job], options: &Options) -> Vec<Named> {
    /// Files below this are named faster than a thread starts.
    const HEAVY_BYTES: u64 = 1 << 20;

    let heavy = jobs
        .iter()
        .filter(|j| j.file_bytes() >= HEAVY_BYTES)
        .count();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = heavy.min(cpus).max(1);

    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Named>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let work = || {
        while let Some((ix, job)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|ix| Some((ix, jobs.get(ix)?)))
        {
            // A reader's bug met on a strange file must not cost the recording.
            let run = std::panic::AssertUnwindSafe(|| job.run(options));
            let named = std::panic::catch_unwind(run).unwrap_or_else(|_| {
                job.unnamed(
                    Reason::BadSymbols,
                    "the reader of symbols failed on this file",
                )
            });
            if let Ok(mut done) = done.lock() {
                done[ix] = Some(named);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            // Without a thread more (ulimit -u) it takes longer.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let done = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    jobs.iter()
        .zip(done)
        .map(|(job, named)| {
            named.unwrap_or_else(|| job.unnamed(Reason::NotResolved, "not looked at"))
        })
        .collect()
}
