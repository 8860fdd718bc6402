//! `convoy serve --always-on`: serves the processes of a machine or of control groups, as they come
//! and go, and the locks of those that match.
//!
//! Everything is read from the kernel's own counters in `/proc`, which cost a program nothing
//! (docs/design/0010). Only the agent, where `--match` asks for it, is in a process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use convoy_capture::{AgentInside, Interrupt, Member, Members, Watch};
use convoy_live::{matches, LockReading, Thread};
use convoy_serve::{Resource, Selection, Totals};

use super::pprof::Profiles;
use super::routes::Routes;
use super::{host, prepare, read_own_cpu, unix_ns, Open, Serve, PATIENCE};
use crate::args::Agent;
use crate::child_recording::Recordings;
use crate::live::enter;
use crate::live::readers::{Locks, Threads};
use crate::message::{say, Message};

/// Most processes that the agent is in at the same time.
const MOST_AGENTS: usize = 64;

/// From the first sight of a process to the tries to put the agent in: it has mapped its libraries
/// by the first one, and an agent that a killed convoy has left is gone by the second.
const TRIES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];

/// Serves until it is asked to end.
pub fn always_on(serve: &Serve) -> Result<(), Message> {
    let prepared = prepare(serve)?;
    let members = Members::of(&serve.cgroup).map_err(|trouble| Message::from(&trouble))?;
    let interrupt = Interrupt::watch();
    let mut fleet = Fleet::new(serve, members);
    fleet.read();
    let open = Open::of(serve, prepared.outlets, &fleet.routes, &subject(serve));
    while !interrupt.asked() {
        thread::sleep(PATIENCE);
        if Instant::now() >= fleet.next {
            fleet.read();
        }
    }
    open.close();
    fleet.leave();
    Ok(())
}

fn subject(serve: &Serve) -> String {
    match serve.cgroup.as_slice() {
        [] => "all processes".into(),
        groups => {
            let names: Vec<String> = groups.iter().map(|g| g.display().to_string()).collect();
            format!("processes of {}", names.join(", "))
        }
    }
}

/// A process that is there.
#[derive(Debug)]
struct Present {
    threads: Threads,
    seen: Instant,
    counting: Counting,
}

/// Whether its locks are counted.
#[derive(Debug)]
enum Counting {
    No,
    /// The number of tries that have failed.
    NotYet(usize),
    Yes(Box<Counted>),
}

/// What an agent counts.
#[derive(Debug)]
struct Counted {
    /// `None` = it was there before.
    agent: Option<AgentInside>,
    locks: Locks,
}

/// All processes.
struct Fleet<'a> {
    serve: &'a Serve,
    members: Members,
    present: BTreeMap<Member, Present>,
    routes: Arc<Routes>,
    began: Instant,
    next: Instant,
    /// Names of processes of which something was said.
    said: BTreeSet<String>,
}

impl<'a> Fleet<'a> {
    fn new(serve: &'a Serve, members: Members) -> Self {
        let now = unix_ns();
        let selection = Selection::cheap(!serve.matching.is_empty());
        let totals = Totals::of_machine(selection, now);
        let resource = Resource {
            process: None,
            host: host(),
        };
        let recordings = Recordings::of_groups(&serve.cgroup);
        let profiles = Profiles::of(recordings, "", None, now);
        Self {
            serve,
            members,
            present: BTreeMap::new(),
            routes: Arc::new(Routes::new(totals, resource, profiles)),
            began: Instant::now(),
            next: Instant::now(),
            said: BTreeSet::new(),
        }
    }

    /// Takes a reading. The next one is due when this one's time is within the budget.
    fn read(&mut self) {
        let began = Instant::now();
        self.look_for_processes();
        let threads = self.read_threads();
        let locks = self.read_locks();
        let mut totals = self.routes.totals();
        let now_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let names = self.present.keys().map(|member| member.name.as_str());
        totals.read_machine(now_ns, unix_ns(), names, &threads);
        totals.read_machine_locks(&locks);
        read_own_cpu(&mut totals);
        drop(totals);
        let took = began.elapsed();
        let rarest = took.div_f64(self.serve.budget().max(f64::EPSILON));
        self.next = began + self.serve.every.max(rarest);
        // Once for each process, and no part of what a reading costs.
        self.enter();
    }

    fn look_for_processes(&mut self) {
        let mut before = std::mem::take(&mut self.present);
        for member in self.members.read() {
            let present = before.remove(&member);
            let present = present.unwrap_or_else(|| self.find(&member));
            self.present.insert(member, present);
        }
        for (member, _gone) in before {
            self.routes.totals().forget_process(member.pid);
        }
    }

    /// A process that is new, or has another name.
    fn find(&self, member: &Member) -> Present {
        let mut patterns = self.serve.matching.iter();
        let counting = match patterns.any(|pattern| matches(pattern, &member.name)) {
            true => Counting::NotYet(0),
            false => Counting::No,
        };
        Present {
            threads: Threads::without_files(member.pid),
            seen: Instant::now(),
            counting,
        }
    }

    /// The threads of all. Those of processes that do not match are not told apart by group: series
    /// are for what somebody has asked for.
    fn read_threads(&mut self) -> Vec<Thread> {
        let mut all = Vec::new();
        for present in self.present.values_mut() {
            let mut threads = present.threads.read().threads;
            if matches!(present.counting, Counting::No) {
                threads.iter_mut().for_each(|t| t.group.clear());
            }
            all.append(&mut threads);
        }
        all
    }

    fn read_locks(&mut self) -> Vec<(String, LockReading)> {
        let mut all = Vec::new();
        for (member, present) in &mut self.present {
            if let Counting::Yes(counted) = &mut present.counting {
                all.push((member.name.clone(), counted.locks.read()));
            }
        }
        all
    }

    /// Puts the agent into processes that match and where it is not yet.
    fn enter(&mut self) {
        let is_inside = |p: &&Present| matches!(&p.counting, Counting::Yes(c) if c.agent.is_some());
        let mut inside = self.present.values().filter(is_inside).count();
        for (member, present) in &mut self.present {
            let Counting::NotYet(tries) = present.counting else {
                continue;
            };
            if present.seen.elapsed() < TRIES[tries] {
                continue;
            }
            if inside >= MOST_AGENTS {
                let found = format!("more than {MOST_AGENTS} processes match");
                let fix = "match fewer: --match NAME, --cgroup NAME";
                let message = Message::new(found, "locks of the others are not counted", fix);
                tell_once(&mut self.said, "", &message, self.serve.quiet);
                return;
            }
            let entered = match enter(Agent::Auto, member.pid) {
                // It came by `fork` with the agent of its parent, or was started under convoy.
                Err(message) => Watch::of(member.pid)
                    .map(|watch| (None, Some(watch)))
                    .map_err(|_| message),
                entered => entered,
            };
            present.counting = match entered {
                Ok((agent, Some(watch))) => {
                    inside += usize::from(agent.is_some());
                    let locks = Locks::new(watch);
                    Counting::Yes(Box::new(Counted { agent, locks }))
                }
                Err(_) if tries + 1 < TRIES.len() => Counting::NotYet(tries + 1),
                Err(message) => {
                    tell_once(&mut self.said, &member.name, &message, self.serve.quiet);
                    Counting::No
                }
                Ok((_, None)) => Counting::No,
            };
        }
    }

    /// Takes the agent out of all processes.
    fn leave(self) {
        for present in self.present.into_values() {
            let Counting::Yes(counted) = present.counting else {
                continue;
            };
            let kept_in = counted.agent.map(AgentInside::leave);
            for trouble in kept_in.into_iter().flatten() {
                Message::from(&trouble).print();
            }
        }
        if !self.serve.quiet {
            say("convoy: nothing is served any more\n");
        }
    }
}

/// There may be hundreds of one name.
fn tell_once(said: &mut BTreeSet<String>, name: &str, message: &Message, quiet: bool) {
    if said.insert(name.to_owned()) && !quiet {
        message.print();
    }
}
