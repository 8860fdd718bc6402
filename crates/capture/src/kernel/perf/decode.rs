//! From records to raw events: which of them are about threads of the recording.

use std::collections::HashMap;

use super::record::What;
use crate::kernel::raw::{Call, Left, Raw, Sink};

/// Task state of a thread that waits (`TASK_INTERRUPTIBLE`): records do not say more.
const BLOCKED: u16 = 1;

/// In no system call that is known.
const NO_CALL: Call = Call {
    nr: -1,
    arg0: 0,
    arg1: 0,
};

/// A thread of the recording.
#[derive(Debug, Clone, Copy)]
struct Thread {
    pid: u32,
    comm: [u8; 16],
}

/// Knows the threads of the recording.
#[derive(Debug)]
pub(super) struct Decoder {
    threads: HashMap<u32, Thread>,
    /// Of a launched program: its process, once it is known.
    child: Child,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Child {
    /// The processes run already.
    None,
    /// It has not been said which one it is.
    Expected,
    /// This one, from its exec on.
    Started(u32),
}

impl Decoder {
    pub(super) fn of_child() -> Self {
        Self {
            threads: HashMap::new(),
            child: Child::Expected,
        }
    }

    pub(super) fn of_running() -> Self {
        Self {
            threads: HashMap::new(),
            child: Child::None,
        }
    }

    pub(super) fn started(&mut self, pid: u32) {
        self.child = Child::Started(pid);
    }

    /// Whether it can be told what belongs to the recording.
    pub(super) fn is_ready(&self) -> bool {
        self.child != Child::Expected
    }

    /// Hands a record on if it is about a thread of the recording.
    pub(super) fn tell(&mut self, ts: u64, what: &What, sink: &mut dyn Sink) {
        match *what {
            What::In { tid } if self.threads.contains_key(&tid) => sink.take(&Raw::Switch {
                ts,
                out: None,
                into: Some(tid),
            }),
            What::Out { tid, ready } if self.threads.contains_key(&tid) => {
                let left = Left {
                    state: if ready { 0 } else { BLOCKED },
                    call: NO_CALL,
                    iowait: false,
                    key: 0,
                };
                sink.take(&Raw::Switch {
                    ts,
                    out: Some((tid, left)),
                    into: None,
                });
            }
            What::Sample {
                tid,
                regs,
                outcome,
                ref stack,
            } if self.threads.contains_key(&tid) => sink.take(&Raw::Sample {
                ts,
                tid,
                regs,
                bytes: stack,
                in_kernel: false,
                call: NO_CALL,
                outcome,
                registers: None,
            }),
            What::In { .. } | What::Out { .. } | What::Sample { .. } => {}
            What::Fork { parent, tid, pid } => {
                let Some(maker) = self.threads.get(&parent) else {
                    return;
                };
                let comm = maker.comm;
                self.threads.insert(tid, Thread { pid, comm });
                sink.take(&Raw::Fork {
                    ts,
                    parent,
                    tid,
                    pid,
                });
            }
            What::Exit { tid } => {
                if let Some(Thread { comm, .. }) = self.threads.remove(&tid) {
                    sink.take(&Raw::Exit { ts, tid, comm });
                }
            }
            What::Name {
                pid,
                tid,
                comm,
                exec,
            } => {
                if exec {
                    return self.exec(ts, pid, comm, sink);
                }
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.comm = comm;
                }
            }
            What::Lost { n, from_ns } => sink.take(&Raw::Lost {
                from: from_ns,
                to: ts,
                n,
                stacks: false,
            }),
            What::ThreadSnapshot(ref there) => {
                let (tid, pid, comm) = (there.tid, there.pid, there.comm);
                // Its first record may have been a fork.
                if self.threads.contains_key(&tid) {
                    return;
                }
                self.threads.insert(tid, Thread { pid, comm });
                sink.take(&Raw::Init {
                    ts,
                    tid,
                    pid,
                    comm,
                    left: there.left,
                    on_cpu: there.left.is_none(),
                });
            }
        }
    }

    /// The process runs another program; of its threads only one is left, under the process's id.
    fn exec(&mut self, ts: u64, pid: u32, comm: [u8; 16], sink: &mut dyn Sink) {
        if self.child == Child::Started(pid) && !self.threads.values().any(|t| t.pid == pid) {
            // The program begins: whatever the process did before was Convoy's doing.
            self.threads.insert(pid, Thread { pid, comm });
            sink.take(&Raw::Init {
                ts,
                tid: pid,
                pid,
                comm,
                left: None,
                on_cpu: true,
            });
            return;
        }
        // The record has the thread's new id. If the main thread has ended, it was another one's before.
        let old_tid = match self.threads.contains_key(&pid) {
            true => Some(pid),
            false => self
                .threads
                .iter()
                .find(|(_, t)| t.pid == pid)
                .map(|t| *t.0),
        };
        let Some(old_tid) = old_tid else { return };
        self.threads.retain(|_, thread| thread.pid != pid);
        self.threads.insert(pid, Thread { pid, comm });
        sink.take(&Raw::Exec { ts, pid, old_tid });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line per event.
    #[derive(Default)]
    struct Lines(Vec<String>);

    impl Sink for Lines {
        fn take(&mut self, raw: &Raw<'_>) {
            self.0.push(match raw {
                Raw::Init { tid, on_cpu, .. } => format!("init {tid} {on_cpu}"),
                Raw::Fork { tid, parent, .. } => format!("fork {tid} by {parent}"),
                Raw::Exec { pid, old_tid, .. } => format!("exec {pid} was {old_tid}"),
                Raw::Exit { tid, comm, .. } => format!("exit {tid} {}", char::from(comm[0])),
                Raw::Switch {
                    into: Some(tid), ..
                } => format!("in {tid}"),
                other => format!("{other:?}"),
            });
        }

        fn pause(&mut self, _: u64) {}
    }

    fn name(pid: u32, tid: u32, comm: u8, exec: bool) -> What {
        let mut name = [0; 16];
        name[0] = comm;
        What::Name {
            pid,
            tid,
            comm: name,
            exec,
        }
    }

    fn told(child: u32, what: &[What]) -> Vec<String> {
        let mut decoder = Decoder::of_child();
        assert!(!decoder.is_ready());
        decoder.started(child);
        let mut lines = Lines::default();
        for (ts, what) in (1..).zip(what) {
            decoder.tell(ts, what, &mut lines);
        }
        lines.0
    }

    #[test]
    fn the_thread_that_becomes_another_program_takes_the_id_of_the_process() {
        let what = [
            name(10, 10, b'a', true),
            What::Fork {
                parent: 10,
                tid: 11,
                pid: 10,
            },
            name(10, 11, b'w', false),
            // The kernel ends all others first.
            What::Exit { tid: 10 },
            name(10, 10, b'b', true),
            What::In { tid: 10 },
            What::In { tid: 11 },
            What::Exit { tid: 10 },
        ];
        let expected = [
            "init 10 true",
            "fork 11 by 10",
            "exit 10 a",
            "exec 10 was 11",
            "in 10",
            "exit 10 b",
        ];
        assert_eq!(told(10, &what), expected);
    }

    #[test]
    fn what_else_convoy_starts_is_not_told() {
        let what = [
            name(20, 20, b'x', true),
            What::In { tid: 20 },
            What::Fork {
                parent: 20,
                tid: 21,
                pid: 21,
            },
            name(21, 21, b'y', true),
            What::Exit { tid: 20 },
        ];
        assert!(told(10, &what).is_empty());
    }
}
