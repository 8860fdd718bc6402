//! A short recording as evidence: which functions have the samples, and what threads wait for.

use std::collections::HashMap;
use std::time::Duration;

use convoy_live::search::{Place, Recorded, RecordedThread, RecordedWait, Stack, WaitReason};
use convoy_model::{Model, OffReason, Site, SiteFrame};

use crate::child_recording::Recordings;

/// Parts of the names of functions that wait for something that other threads do.
const EVENT_FUNCTIONS: [&str; 7] = [
    "cond_wait",
    "cond_timedwait",
    "cond_clockwait",
    "barrier_wait",
    "_join",
    "sem_wait",
    "sem_timedwait",
];

/// Records a process for a while; or why that is not possible.
pub fn record(pid: u32, time: Duration) -> Result<Recorded, String> {
    let profile = Recordings::of(pid).record(time, &|| false);
    let profile = profile.map_err(|failure| failure.to_string())?;
    let model = Model::build(profile);
    of_model(&model, pid).ok_or_else(|| "the recording has no scheduler events".into())
}

/// Turns a model into evidence.
fn of_model(model: &Model, pid: u32) -> Option<Recorded> {
    let sched = model.sched.as_ref()?;
    let mut places = Places::default();
    let mut all = Recorded {
        seconds: sched.wall_ns() as f64 / 1e9,
        ..Recorded::default()
    };
    let waits_for_event = |tid: u32| {
        let path = format!("/proc/{pid}/task/{tid}/syscall");
        is_event_wait(&std::fs::read_to_string(path).unwrap_or_default())
    };
    let mut index: HashMap<u32, usize> = HashMap::new();
    for (id, thread) in (0..).zip(&model.threads) {
        let process = model.processes.get(thread.process.0 as usize);
        if process.is_some_and(|process| process.pid == pid) {
            index.insert(id, all.threads.len());
            all.threads.push(RecordedThread {
                tid: thread.tid,
                name: thread.name.clone(),
            });
        }
    }
    for (slice, site) in model.samples() {
        if let (Some(thread), Some(site)) = (index.get(&slice.thread.0), site) {
            all.stacks.push(Stack {
                thread: *thread,
                frames: places.of(site),
                samples: slice.n,
            });
        }
    }
    for off in &sched.offs {
        let Some(thread) = index.get(&off.thread.0) else {
            continue;
        };
        let site = off.site.and_then(|id| model.site(id));
        let place = site.and_then(|site| Some(places.number(shown(site)?)));
        let mut reason = reason(off.reason, site);
        if reason == Some(WaitReason::Futex) && site.is_none() {
            // Since before the recording: nobody saw where it began, but the thread is still there.
            let tid = all.threads.get(*thread).map_or(0, |thread| thread.tid);
            if waits_for_event(tid) {
                reason = Some(WaitReason::Event);
            }
        }
        all.waits.push(RecordedWait {
            thread: *thread,
            reason,
            place,
            file: off
                .name
                .and_then(|id| sched.name(id))
                .unwrap_or_default()
                .into(),
            ns: off.sum_ns,
        });
    }
    all.places = places.all;
    Some(all)
}

#[cfg(target_arch = "x86_64")]
const FUTEX: &str = "202";
#[cfg(target_arch = "aarch64")]
const FUTEX: &str = "98";

/// Operation of futex(2) with which C libraries wait for conditions, semaphores and joins;
/// `FUTEX_WAIT` is that of mutexes.
const FUTEX_WAIT_BITSET: u64 = 9;

/// The operation without its flags.
const FUTEX_OPERATION: u64 = 0x7f;

/// Whether a thread waits until another one has done something, by /proc/TID/syscall.
fn is_event_wait(syscall: &str) -> bool {
    let mut words = syscall.split_ascii_whitespace();
    let is_futex = words.next() == Some(FUTEX);
    let operation = words.nth(1).and_then(|word| word.strip_prefix("0x"));
    let operation = operation.and_then(|hex| u64::from_str_radix(hex, 16).ok());
    is_futex && operation.is_some_and(|op| op & FUTEX_OPERATION == FUTEX_WAIT_BITSET)
}

/// The function of a wait, as it was compiled.
fn shown(site: &Site) -> Option<&SiteFrame> {
    let from = site.frames.get(site.shown..)?;
    from.iter().find(|frame| !frame.inlined)
}

fn reason(reason: OffReason, site: Option<&Site>) -> Option<WaitReason> {
    match reason {
        OffReason::File
        | OffReason::Sync
        | OffReason::Disk
        | OffReason::PageFault
        | OffReason::AsyncIo => Some(WaitReason::Io),
        OffReason::Futex => {
            let waits = |name: &str| EVENT_FUNCTIONS.iter().any(|part| name.contains(part));
            let is_event = site.is_some_and(|site| site.has_function(waits));
            Some(match is_event {
                true => WaitReason::Event,
                false => WaitReason::Futex,
            })
        }
        OffReason::Pipe
        | OffReason::Socket
        | OffReason::Poll
        | OffReason::Sleep
        | OffReason::Signal
        | OffReason::Child
        | OffReason::Ipc => Some(WaitReason::Outside),
        OffReason::Unknown
        | OffReason::Memory
        | OffReason::Stopped
        | OffReason::OtherCall
        | OffReason::Preempted => None,
    }
}

/// Functions by number.
#[derive(Debug, Default)]
struct Places {
    all: Vec<Place>,
    numbers: HashMap<(String, String, u64), usize>,
}

impl Places {
    /// The functions of a call stack as they were compiled, the outermost first.
    fn of(&mut self, site: &Site) -> Vec<usize> {
        let frames = site.frames.iter().rev().filter(|frame| !frame.inlined);
        frames.map(|frame| self.number(frame)).collect()
    }

    fn number(&mut self, frame: &SiteFrame) -> usize {
        let (module, function, start) = frame.key();
        let key = (module.to_owned(), function.to_owned(), start);
        let next = self.all.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.all.push(Place {
                name: name(frame),
                module: frame.module.clone(),
                offset: frame.offset,
            });
        }
        number
    }
}

fn name(frame: &SiteFrame) -> String {
    match frame.function.as_str() {
        "" => frame.whole().label(),
        function => function.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_model::{CodeFrom, OffCpu, Process, Sched, SiteId, Slice, Thread, ThreadId};

    fn frame(function: &str, inlined: bool) -> SiteFrame {
        SiteFrame {
            function: function.into(),
            module: "server".into(),
            inlined,
            ..SiteFrame::default()
        }
    }

    fn model() -> Model {
        let thread = |tid| Thread {
            tid,
            ..Thread::default()
        };
        let site = |frames: &[SiteFrame]| Site {
            frames: frames.to_vec(),
            ..Site::default()
        };
        let off = |site, reason| OffCpu {
            site: Some(SiteId(site)),
            reason,
            sum_ns: 500_000_000,
            ..OffCpu::default()
        };
        Model {
            processes: vec![Process {
                pid: 7,
                ..Process::default()
            }],
            threads: vec![thread(7), thread(8)],
            sites: vec![
                site(&[
                    frame("rotate", true),
                    frame("hash", false),
                    frame("main", false),
                ]),
                site(&[frame("pthread_cond_wait", false), frame("main", false)]),
                site(&[frame("__lll_lock_wait", false), frame("main", false)]),
            ],
            sched: Some(Sched {
                end_ns: 1_000_000_000,
                slices: vec![Slice {
                    thread: ThreadId(1),
                    site: Some(SiteId(0)),
                    from: CodeFrom::Sample,
                    n: 9,
                    ..Slice::default()
                }],
                offs: vec![
                    off(1, OffReason::Futex),
                    off(2, OffReason::Futex),
                    off(2, OffReason::Sync),
                    off(2, OffReason::Unknown),
                ],
                ..Sched::default()
            }),
            ..Model::default()
        }
    }

    #[test]
    fn inlined_functions_are_part_of_those_that_can_be_probed() {
        let recorded = of_model(&model(), 7).unwrap();
        let names = recorded.stacks[0].frames.iter();
        let names: Vec<&str> = names.map(|ix| recorded.places[*ix].name.as_str()).collect();
        assert_eq!(names, ["main", "hash"]);
        assert_eq!(recorded.threads[recorded.stacks[0].thread].tid, 8);
    }

    #[test]
    fn condition_waits_are_told_from_other_futexes() {
        let recorded = of_model(&model(), 7).unwrap();
        let whole = convoy_live::Focus::new();
        for reason in [WaitReason::Event, WaitReason::Futex, WaitReason::Io] {
            assert_eq!(recorded.wait(&whole, reason), 0.5, "{reason:?}");
        }
        assert_eq!(recorded.wait(&whole, WaitReason::Outside), 0.0);
    }

    #[test]
    fn mutexes_and_conditions_are_told_apart_by_the_system_call() {
        let call =
            |operation: &str| format!("{FUTEX} 0x7f5c 0x{operation} 0x2 0x0 0x0 0x0 0x7ffe 0x7f");
        assert!(is_event_wait(&call("89")) && is_event_wait(&call("189")));
        assert!(!is_event_wait(&call("80")));
        assert!(!is_event_wait("running\n") && !is_event_wait(""));
    }

    #[test]
    fn other_processes_are_left_out() {
        assert!(of_model(&model(), 9).unwrap().threads.is_empty());
        assert_eq!(of_model(&Model::default(), 7), None);
    }
}
