//! What to call the things that the scheduler shows: reasons for waiting, wakers, loops, call paths.

use convoy_model::{
    passes_on, CodeFrom, GroupId, Model, NameId, ObjectId, OffReason, ProcessId, SchedSource, Site,
    SiteFrame, SiteId, SpinKind, SpinLoop, Waker,
};

use crate::human::count_of;
use crate::names;

/// A path of fewer frames has none to spare for the outermost one.
const ROOM_FOR_OUTERMOST: usize = 3;

/// Why a thread was off the processors, for people.
pub fn reason(reason: OffReason) -> &'static str {
    match reason {
        OffReason::Unknown => "blocked, reason not known",
        OffReason::Futex => "lock, condition, join (futex)",
        OffReason::File => "file read or write",
        OffReason::Sync => "fsync",
        OffReason::Disk => "disk",
        OffReason::PageFault => "page fault",
        OffReason::Memory => "mmap and the like",
        OffReason::Pipe => "pipe or terminal",
        OffReason::Socket => "socket",
        OffReason::Poll => "poll, select or epoll",
        OffReason::Sleep => "sleep",
        OffReason::Signal => "waiting for a signal",
        OffReason::Child => "waiting for a child process",
        OffReason::Ipc => "file lock or System V IPC",
        OffReason::AsyncIo => "asynchronous I/O",
        OffReason::Stopped => "stopped",
        OffReason::OtherCall => "another system call",
        OffReason::Preempted => "preempted, or gave way",
    }
}

/// The same for programs.
pub fn reason_id(reason: OffReason) -> &'static str {
    match reason {
        OffReason::Unknown => "unknown",
        OffReason::Futex => "futex",
        OffReason::File => "file",
        OffReason::Sync => "sync",
        OffReason::Disk => "disk",
        OffReason::PageFault => "page-fault",
        OffReason::Memory => "memory",
        OffReason::Pipe => "pipe",
        OffReason::Socket => "socket",
        OffReason::Poll => "poll",
        OffReason::Sleep => "sleep",
        OffReason::Signal => "signal",
        OffReason::Child => "child",
        OffReason::Ipc => "ipc",
        OffReason::AsyncIo => "async-io",
        OffReason::Stopped => "stopped",
        OffReason::OtherCall => "other-call",
        OffReason::Preempted => "preempted",
    }
}

/// What makes a loop a waiting one.
pub fn spin(kind: SpinKind) -> &'static str {
    match kind {
        SpinKind::Polling => "only loads and compares",
        SpinKind::Pause => "loads and compares, with a pause",
        SpinKind::Lock => "tries to take a lock",
        SpinKind::Yield => "gives way or asks the time between looks",
        SpinKind::KnownFunction => "a function known to poll",
        SpinKind::Sleep => "sleeps between looks",
    }
}

/// The same for programs.
pub fn spin_id(kind: SpinKind) -> &'static str {
    match kind {
        SpinKind::Polling => "polling",
        SpinKind::Pause => "pause",
        SpinKind::Lock => "lock",
        SpinKind::Yield => "yield",
        SpinKind::KnownFunction => "known-function",
        SpinKind::Sleep => "sleep",
    }
}

/// How the code is known, for programs.
pub fn from_id(from: CodeFrom) -> &'static str {
    match from {
        CodeFrom::Unknown => "unknown",
        CodeFrom::Sample => "sample",
        CodeFrom::StackTop => "stack-top",
    }
}

/// Where events came from, for programs.
pub fn source_id(source: SchedSource) -> &'static str {
    match source {
        SchedSource::Bpf => "bpf",
        SchedSource::Perf => "perf",
    }
}

/// A group by its id.
pub fn group_of(model: &Model, id: GroupId) -> String {
    model
        .groups
        .get(id.0 as usize)
        .map_or_else(|| "unknown threads".into(), names::group)
}

/// How many threads, and which: `4 threads of worker-#`; the group may be only that of most of them.
pub fn threads(model: &Model, n: usize, group: GroupId) -> String {
    let of_group = model.groups.get(group.0 as usize);
    let of_group = of_group.map_or(n, |group| group.threads.len());
    let threads = count_of(n as u64, "thread", "threads");
    let name = group_of(model, group);
    if n > of_group {
        format!("{threads}, most time in {name}")
    } else {
        format!("{threads} of {name}")
    }
}

/// `name (pid)`.
pub fn process_of(model: &Model, id: ProcessId) -> String {
    model.processes.get(id.0 as usize).map_or_else(
        || "unknown process".into(),
        |p| match p.name.as_str() {
            "" => format!("process {}", p.pid),
            name => format!("{name} ({})", p.pid),
        },
    )
}

/// A file, pipe or socket; the end of a path tells most.
pub fn file_of(model: &Model, id: NameId) -> String {
    let name = model.sched.as_ref().and_then(|sched| sched.name(id));
    name.map_or_else(|| "unknown file".into(), |name| names::clip(name, 60))
}

/// What is waited for, if it has a name: an object, or a file, pipe or socket.
pub fn waited_for(model: &Model, object: Option<ObjectId>, name: Option<NameId>) -> Option<String> {
    object
        .map(|id| names::object_of(model, id))
        .or_else(|| name.map(|id| file_of(model, id)))
}

/// Where a call stack is, for a person: an unknown one in words.
pub fn place(model: &Model, site: Option<SiteId>) -> String {
    site.map_or_else(|| "unknown place".into(), |id| names::site_of(model, id))
}

/// Callers are written after this.
const CALLED_BY: &str = " < ";

/// The frames that tell something, innermost first: `leaf() a.c:1 < caller() a.c:9 < main() a.c:30`, at most
/// `most` of them. Of a deep stack the outermost one is kept, which says what it is all for; of a recursion the
/// innermost call.
pub fn path(site: &Site, most: usize) -> String {
    let frames = site.frames.get(site.shown..).unwrap_or(&[]);
    // What starts threads is below every one of them and says nothing; nor does a library's code without a name.
    let starts = [
        "start_thread",
        "clone",
        "clone3",
        "_start",
        "__libc_start_main",
    ];
    let nameless = |f: &SiteFrame| f.function.is_empty() && passes_on(f);
    let told = |f: &&SiteFrame| {
        let starts = starts.contains(&f.function.as_str());
        !starts && !f.function.starts_with("__libc_start") && !nameless(f)
    };
    let mut told: Vec<_> = frames.iter().filter(told).collect();
    told.dedup_by(|outer, inner| inner.is_told() && inner.key() == outer.key());
    if told.is_empty() {
        return names::site(site);
    }
    let mut texts: Vec<_> = told.iter().take(most).map(|f| names::frame(f)).collect();
    if told.len() > most {
        let outermost = told.iter().rposition(|frame| !passes_on(frame));
        let outermost = outermost.filter(|&at| at >= most && most >= ROOM_FOR_OUTERMOST);
        if outermost.is_some() {
            texts.pop();
        }
        texts.push("..".into());
        texts.extend(
            outermost
                .and_then(|at| told.get(at))
                .map(|f| names::frame(f)),
        );
    }
    texts.join(CALLED_BY)
}

/// The same by id.
pub fn path_of(model: &Model, site: Option<SiteId>, most: usize) -> String {
    site.and_then(|id| model.sites.get(id.0 as usize))
        .map_or_else(|| "code that is not known".into(), |site| path(site, most))
}

/// The names of the functions of a call stack, innermost first: what makes it the same path as another.
pub fn functions(model: &Model, site: Option<SiteId>) -> Vec<String> {
    let site = site.and_then(|id| model.sites.get(id.0 as usize));
    let frames = site.and_then(|s| s.frames.get(s.shown..)).unwrap_or(&[]);
    frames.iter().map(|f| f.function.clone()).collect()
}

/// Who ended a wait.
pub fn waker(model: &Model, waker: Waker, group: Option<GroupId>) -> String {
    match waker {
        Waker::Unknown => "a waker that the kernel did not name".into(),
        Waker::Interrupt => "an interrupt: a timer, disk or network card".into(),
        Waker::Outside(tid) => format!("thread {tid} of a process that is not recorded"),
        Waker::Thread(thread, site) => {
            let who = group.map_or_else(
                || names::thread_of(model, thread),
                |group| group_of(model, group),
            );
            format!("{} in {who}", place(model, site))
        }
    }
}

/// Where a loop is: its line, and its instructions in the module.
pub fn loop_place(spin: &SpinLoop) -> String {
    let shown = spin.frames.get(spin.shown).or_else(|| spin.frames.first());
    let Some(shown) = shown else {
        return format!("code at {}", range(spin));
    };
    let label = names::frame(shown);
    if shown.function.is_empty() {
        label
    } else if shown.module.is_empty() {
        format!("{label} ({})", range(spin))
    } else {
        format!(
            "{label} ({}+{})",
            names::clip(&shown.module, 40),
            range(spin)
        )
    }
}

/// `0x1020-0x1040`, or one address where only a function is known.
fn range(spin: &SpinLoop) -> String {
    if spin.lo == spin.hi {
        format!("0x{:x}", spin.lo)
    } else {
        format!("0x{:x}-0x{:x}", spin.lo, spin.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_model::ThreadId;

    fn frame(function: &str, line: u32) -> SiteFrame {
        SiteFrame {
            function: function.into(),
            file: "a.c".into(),
            line,
            module: "app".into(),
            ..SiteFrame::default()
        }
    }

    #[test]
    fn a_path_begins_where_it_tells_something_and_ends_before_the_thread_start() {
        let site = Site {
            frames: vec![
                frame("memcpy", 1),
                frame("copy", 2),
                frame("work", 3),
                frame("start_thread", 0),
                frame("clone3", 0),
            ],
            shown: 1,
            ..Site::default()
        };
        assert_eq!(path(&site, 4), "copy() a.c:2 < work() a.c:3");
        assert_eq!(path(&site, 1), "copy() a.c:2 < ..");
        assert_eq!(path(&Site::default(), 4), "unknown place");
        let deep = Site {
            frames: [
                ("leaf", 9),
                ("sort", 5),
                ("sort", 6),
                ("sort", 7),
                ("merge", 8),
                ("work", 3),
                ("main", 1),
            ]
            .map(|(function, line)| frame(function, line))
            .to_vec(),
            ..Site::default()
        };
        let text = "leaf() a.c:9 < sort() a.c:5 < .. < main() a.c:1";
        assert_eq!(
            path(&deep, 3),
            text,
            "a recursion once, the outermost one kept"
        );
        assert_eq!(path(&deep, 2), "leaf() a.c:9 < sort() a.c:5 < ..");
        let only_start = Site {
            frames: vec![frame("start_thread", 0)],
            ..Site::default()
        };
        assert_eq!(path(&only_start, 4), "start_thread() a.c");
    }

    #[test]
    fn a_loop_is_known_by_its_line_or_at_least_by_its_address() {
        let mut spin = SpinLoop {
            lo: 0x1020,
            hi: 0x1040,
            ..SpinLoop::default()
        };
        assert_eq!(loop_place(&spin), "code at 0x1020-0x1040");
        spin.frames = vec![frame("wait_all", 7)];
        assert_eq!(loop_place(&spin), "wait_all() a.c:7 (app+0x1020-0x1040)");
        spin.hi = spin.lo;
        assert_eq!(loop_place(&spin), "wait_all() a.c:7 (app+0x1020)");
    }

    #[test]
    fn ids_that_lead_nowhere_are_unknown_and_do_not_panic() {
        let model = Model::default();
        assert_eq!(group_of(&model, GroupId(9)), "unknown threads");
        assert_eq!(process_of(&model, ProcessId(9)), "unknown process");
        assert_eq!(file_of(&model, NameId(9)), "unknown file");
        assert_eq!(place(&model, Some(SiteId(9))), "unknown place");
        assert_eq!(
            path_of(&model, Some(SiteId(9)), 3),
            "code that is not known"
        );
        let nobody = Waker::Thread(ThreadId(9), Some(SiteId(9)));
        assert_eq!(
            waker(&model, nobody, None),
            "unknown place in unknown thread"
        );
    }
}
