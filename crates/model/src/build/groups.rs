//! Thread groups: threads that do the same job.
//!
//! A job is told by start routine, creation site and name pattern. The start routine alone does not
//! do: every `std::thread`, Rust, GLib and OpenMP thread starts in its library's trampoline. There the
//! function that its call stacks have in common takes its place.

use std::collections::{BTreeSet, HashMap};

use convoy_profile::{Process, Thread as Record, ThreadIx};

use super::jobs::{jobs, Job, Jobs};
use super::sched::Mention;
use super::sites::Sites;
use super::threads::Threads;
use crate::programs::base_name;
use crate::wrappers::passes_on;
use crate::{path, Group, GroupId, Model, ProcessId, SiteFrame, SiteId, ThreadId};

/// Groups the threads of one process.
pub(super) fn group(
    model: &mut Model,
    process: &Process,
    id: ProcessId,
    threads: &Threads,
    mention: &Mention,
    sites: &mut Sites<'_>,
) {
    let first = model.groups.len();
    let mut members: Vec<Member> = threads
        .iter()
        .map(|(ix, thread)| member(model, process, sites, ix, thread))
        .collect();
    let jobs = jobs(model, process, mention, sites);
    assign_jobs(&mut members, &jobs);

    let mut places = Vec::new();
    let mut by_key: HashMap<GroupKey, GroupId> = HashMap::new();
    for member in members {
        let group = match by_key.get(&member.key) {
            Some(&group) => group,
            None => {
                let group = GroupId(model.groups.len() as u32);
                let creator = member
                    .create_site
                    .and_then(|site| creation_frames(model, site).first());
                let name = display_name(&member.key, member.start.as_ref(), creator);
                places.push(member.key.job.as_ref().and_then(|job| jobs.place(job)));
                model.groups.push(Group {
                    process: id,
                    name,
                    start: member.start,
                    create_site: member.create_site,
                    name_pattern: member.key.name_pattern.clone(),
                    threads: Vec::new(),
                });
                by_key.insert(member.key, group);
                group
            }
        };
        model.threads[member.thread.0 as usize].group = group;
        model.groups[group.0 as usize].threads.push(member.thread);
    }
    tell_apart(model, first, &places);
}

/// A thread, and what tells its group.
struct Member {
    ix: usize,
    thread: ThreadId,
    key: GroupKey,
    start: Option<SiteFrame>,
    create_site: Option<SiteId>,
}

fn member(
    model: &mut Model,
    process: &Process,
    sites: &mut Sites<'_>,
    ix: usize,
    thread: ThreadId,
) -> Member {
    let record = &process.threads[ix];
    let start = record.start.and_then(|frame| sites.expand(frame).pop());
    let create_site = sites.known(record.create_stack, &mut model.sites);
    let frames = create_site.map_or(&[][..], |site| creation_frames(model, site));
    let key = GroupKey {
        main: ix == 0,
        created: created_key(frames, start.as_ref()),
        start: start.as_ref().map(start_key),
        name_pattern: if ix == 0 {
            String::new()
        } else {
            name_pattern(record, process)
        },
        job: None,
    };
    Member {
        ix,
        thread,
        key,
        start,
        create_site,
    }
}

/// Threads of trampolines that are alike otherwise run one job if all that is known of them agrees. Else
/// they are as many groups as there are jobs, and one more of those that are not known.
fn assign_jobs(members: &mut [Member], jobs: &Jobs) {
    let job = |m: &Member| jobs.of.get(&(m.ix as ThreadIx)).cloned();
    let told = |m: &Member| m.key.main || m.start.as_ref().is_some_and(|s| !is_trampoline(s));
    let mut by_key: HashMap<GroupKey, Vec<usize>> = HashMap::new();
    for (at, member) in members.iter().enumerate().filter(|(_, m)| !told(m)) {
        by_key.entry(member.key.clone()).or_default().push(at);
    }
    for alike in by_key.into_values() {
        let known: BTreeSet<Job> = alike.iter().filter_map(|&at| job(&members[at])).collect();
        for at in alike {
            members[at].key.job = match known.len() {
                1 => known.first().cloned(),
                _ => job(&members[at]),
            };
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GroupKey {
    main: bool,
    start: Option<String>,
    /// What the threads run, where `start` is a library's.
    job: Option<Job>,
    created: Vec<String>,
    name_pattern: String,
}

/// A name that somebody gave, else what the threads run, else where they come from.
fn display_name(key: &GroupKey, start: Option<&SiteFrame>, creator: Option<&SiteFrame>) -> String {
    match (start, &key.job, creator) {
        _ if key.main => "main".into(),
        _ if !key.name_pattern.is_empty() => key.name_pattern.clone(),
        (Some(start), ..) if !is_trampoline(start) => start_name(start),
        (_, Some(job), _) => job_name(&job.name),
        (_, None, Some(creator)) => format!("threads created at {}", creator.label()),
        (Some(start), None, None) => start_name(start),
        (None, None, None) => "other threads".into(),
    }
}

/// The frame that created the thread, and those around it.
fn creation_frames(model: &Model, site: SiteId) -> &[SiteFrame] {
    model
        .sites
        .get(site.0 as usize)
        .map_or(&[], |site| site.frames.get(site.shown..).unwrap_or(&[]))
}

fn start_key(start: &SiteFrame) -> String {
    match start.function.as_str() {
        "" => format!("{}+{:x}", start.module, start.offset),
        function => format!("{}!{function}", start.module),
    }
}

/// The creating function and who called it. Outer frames do not count, nor does recursion: a tree of
/// tasks that spawns from every depth is one job, but `spawn()` called at two lines makes two.
fn created_key(frames: &[SiteFrame], start: Option<&SiteFrame>) -> Vec<String> {
    let Some(creator) = frames.first() else {
        return Vec::new();
    };
    let same =
        |frame: &&SiteFrame| !creator.function.is_empty() && frame.function == creator.function;
    let caller = frames.iter().skip(1).find(|frame| !same(frame));
    // Several calls in one function with one start routine make one kind of thread. With a
    // trampoline, each call may start another function.
    let decided = start.is_some_and(|start| !is_trampoline(start) && !creator.function.is_empty());
    let creator = if decided {
        start_key(creator)
    } else {
        place_key(creator)
    };
    std::iter::once(creator)
        .chain(caller.map(place_key))
        .collect()
}

fn place_key(frame: &SiteFrame) -> String {
    match frame.line {
        0 => format!("{}+{:x}", frame.module, frame.offset),
        line => format!("{} {}:{line}", frame.function, frame.file),
    }
}

/// Start routines of thread libraries: they say nothing of the thread's job.
const TRAMPOLINES: [&str; 24] = [
    "execute_native_thread_routine",           // libstdc++
    "execute_native_thread_routine_compat",    // the same, for old programs
    "__thread_proxy",                          // libc++
    "g_thread_proxy",                          // GLib
    "gomp_thread_start",                       // libgomp
    "__kmp_launch_worker",                     // LLVM's OpenMP
    "thread_proxy",                            // Boost
    "boost_asio_detail_posix_thread_function", // Boost.Asio
    "asio_detail_posix_thread_function",       // Asio
    "thread_start",                            // Rust
    "thread_native_entry",                     // HotSpot
    "pythread_wrapper",                        // CPython
    "pfs_spawn_thread",                        // MySQL, MariaDB
    "uv__thread_start",                        // libuv
    "SDL_RunThread",                           // SDL
    "_pt_root",                                // NSPR
    "dummy_worker",                            // APR
    "ThreadEntry",                             // V8, .NET
    "thread_start_func_1",                     // Ruby
    "caml_thread_start",                       // OCaml
    "threadentry",                             // cgo
    "asan_thread_start",                       // AddressSanitizer
    "__tsan_thread_start_func",                // ThreadSanitizer
    "start_wrapper",                           // Mono
];

/// Thread libraries whose start routine has lost its name in a distribution's build.
const THREAD_LIBRARIES: [&str; 9] = [
    "libboost_thread",
    "libapr-1",
    "libQt5Core",
    "libQt6Core",
    "libSDL2",
    "libnspr4",
    "libjvm",
    "libasan",
    "libtsan",
];

pub(super) fn is_trampoline(start: &SiteFrame) -> bool {
    if start.function.is_empty() {
        return passes_on(start)
            || THREAD_LIBRARIES
                .iter()
                .any(|library| start.module.starts_with(library));
    }
    let path = path::components(&start.function);
    passes_on(start)
        || path
            .last()
            .is_some_and(|name| TRAMPOLINES.contains(&name.as_str()))
        || path.ends_with(&["QThreadPrivate".into(), "start".into()])
}

/// `Pool::start::{closure}()`: that it is the closure's `operator()` goes without saying.
fn job_name(job: &str) -> String {
    format!("{}()", job.strip_suffix("::operator()").unwrap_or(job))
}

fn start_name(start: &SiteFrame) -> String {
    match start.function.as_str() {
        "" if !start.module.is_empty() => format!("{} thread", start.module),
        "" => start.label(),
        function => format!("{}()", path::short(function)),
    }
}

/// The name with numbers as `#`; empty if it was not given but inherited from the process.
fn name_pattern(record: &Record, process: &Process) -> String {
    // The kernel keeps 15 bytes of a name.
    let exe = base_name(&process.exe);
    let cut = exe.get(..15).unwrap_or(exe);
    let main = process
        .threads
        .first()
        .map_or("", |main| main.name.as_str());
    if record.name == cut || record.name == main {
        return String::new();
    }
    let mut pattern = String::with_capacity(record.name.len());
    for c in record.name.chars() {
        if !c.is_ascii_digit() {
            pattern.push(c);
        } else if !pattern.ends_with('#') {
            pattern.push('#');
        }
    }
    pattern
}

/// Groups of one process with the same name get what makes them different: start routine, creation
/// site, the caller of that, where the closure is that they run, else a number.
fn tell_apart(model: &mut Model, first: usize, places: &[Option<String>]) {
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, group) in model.groups.iter().enumerate().skip(first) {
        by_name.entry(group.name.clone()).or_default().push(at);
    }
    for same in by_name.into_values().filter(|same| same.len() > 1) {
        let by_place = |at: usize| places.get(at - first)?.clone();
        let all = |choice: &dyn Fn(usize) -> Option<String>| -> Option<Vec<String>> {
            let names: Vec<String> = same.iter().map(|&at| choice(at)).collect::<Option<_>>()?;
            let different: BTreeSet<&String> = names.iter().collect();
            (different.len() == same.len()).then_some(names)
        };
        let told = all(&|at| by_start(model, at))
            .or_else(|| all(&|at| by_creator(model, at)))
            .or_else(|| all(&|at| by_caller(model, at)))
            .or_else(|| all(&by_place));
        for (nth, &at) in same.iter().enumerate() {
            let suffix = match &told {
                Some(names) => format!(" ({})", names[nth]),
                None if nth == 0 => continue,
                None => format!(" #{}", nth + 1),
            };
            model.groups[at].name.push_str(&suffix);
        }
    }
}

fn by_start(model: &Model, at: usize) -> Option<String> {
    model.groups[at].start.as_ref().map(start_name)
}

fn by_creator(model: &Model, at: usize) -> Option<String> {
    let frames = creation_frames(model, model.groups[at].create_site?);
    frames
        .first()
        .map(|frame| format!("created at {}", frame.label()))
}

fn by_caller(model: &Model, at: usize) -> Option<String> {
    let frames = creation_frames(model, model.groups[at].create_site?);
    let creator = frames.first()?;
    let caller = frames
        .iter()
        .find(|frame| frame.function != creator.function)?;
    Some(format!("created from {}", caller.label()))
}
