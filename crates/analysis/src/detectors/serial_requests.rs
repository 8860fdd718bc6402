//! A program that asks another one for one thing at a time, from an event loop that could have many requests under way: awaits in a
//! row. The loop shows nothing of it, as it waits for whatever comes; but while one of the two works or waits for something of its own, the
//! other one waits for it.

use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent};
use convoy_model::{runs, FindingId, GroupId, OffReason, ProcessId, Runs, ThreadId};

use crate::estimate::saving::Saving;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::words::{cause, evidence, time};

/// Answers that make a habit, how long each takes at least, nanoseconds, and the share of the run that they take.
const ANSWERS: (u64, f64, f64) = (20, 500_000.0, 0.3);
/// Whoever answers waits for the next request so many times for each answer (for a connection and what comes through it, for some)...
const IN_TURNS: (f64, f64) = (0.7, 3.0);
/// ... and for this share of the time that is not in answers: with several requests under way it would have others then.
const IDLE: f64 = 0.5;
/// Waits of it that others ended, for each answer, from which on these may be what the answer was waited for.
const OTHERS: f64 = 0.5;
/// Share of the time in answers that it works at most: the rest is waits of its own, of which there may be many at a time.
const WORKS: f64 = 0.5;
/// What a program expects that asks on its own account: whether it needs an answer for its next question is not known.
const EXPECTED: f64 = 0.5;
const METHOD: &str = "waits for answers, overlapped with one another";

/// What passes between two processes.
#[derive(Default)]
struct Talk {
    answers: u64,
    answer_ns: f64,
    requests: u64,
    request_ns: f64,
}

/// With the group of the thread that asks.
pub(crate) fn findings(cx: &RunFacts) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut talks: BTreeMap<(ThreadId, ProcessId), Talk> = BTreeMap::new();
    // Waits of each process that threads of others ended.
    let mut asked: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for (wake, off, waker, _) in view.sched.ended_by_threads() {
        let (waits, ends) = (view.process(off.thread), view.process(waker));
        let may_talk = matches!(off.reason, OffReason::Poll | OffReason::Socket);
        if !may_talk || !view.run_other_code(waits, ends) {
            continue;
        }
        *asked.entry(waits).or_default() += wake.n;
        if asks(view, off.thread) && off.reason == OffReason::Poll {
            let talk = talks.entry((off.thread, ends)).or_default();
            talk.answers += wake.n;
            talk.answer_ns += wake.wait_ns as f64;
        }
        if asks(view, waker) {
            let talk = talks.entry((waker, waits)).or_default();
            talk.requests += wake.n;
            talk.request_ns += wake.wait_ns as f64;
        }
    }
    let said = |(&(thread, server), talk): (&(ThreadId, ProcessId), &Talk)| {
        // What others tell the one who answers may be what is waited for: jobs of a queue.
        let by_others = asked.get(&server).map_or(0, |n| n - talk.requests.min(*n));
        if by_others as f64 >= OTHERS * talk.answers as f64 {
            return None;
        }
        let finding = talk.said(view, thread, server)?;
        Some((vec![view.role(thread)], finding))
    };
    talks.iter().filter_map(said).collect()
}

/// Whether it is the first thread of a program that may wait for many things at a time, and serves nobody.
fn asks(view: &RunView, id: ThreadId) -> bool {
    let process = view.process_at(view.process(id));
    let is_main = view.thread(id).is_some_and(|th| th.main);
    is_main
        && process.is_some_and(|process| {
            let loops = matches!(
                runs(&process.name),
                Some(Runs::EventLoop | Runs::OneAtATime)
            );
            loops && !process.listens
        })
}

impl Talk {
    fn said(&self, view: &RunView, thread: ThreadId, server: ProcessId) -> Option<Finding> {
        let each = self.answer_ns / self.answers.max(1) as f64;
        let is_habit = self.answers >= ANSWERS.0 && each >= ANSWERS.1;
        if !is_habit || self.answer_ns < ANSWERS.2 * view.wall {
            return None;
        }
        let turns = self.requests as f64 / self.answers as f64;
        let besides = (view.life(thread).min(view.wall) - self.answer_ns).max(0.0);
        let one_at_a_time =
            (IN_TURNS.0..IN_TURNS.1).contains(&turns) && self.request_ns >= IDLE * besides;
        let threads = view.of_process(server);
        let works: f64 = threads.map(|th| th.working_ns() as f64).sum();
        if !one_at_a_time || works > WORKS * self.answer_ns {
            return None;
        }
        // What the one who answers works stays, and goes on beside what the other one does.
        let most = self.answer_ns - (works - besides).max(0.0);
        let saving = Saving {
            expected: EXPECTED * most,
            most,
            ..Saving::default()
        };
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let name = view.group_name(view.role(thread));
        let of = view.process_at(server)?;
        let share = self.answer_ns / view.wall;
        Some(Finding {
            id: FindingId::BlockingCalls,
            subject: Subject::Run,
            title: format!(
                "{name} waits for one answer of {} ({}) at a time, {} of the run: {} times, {} each",
                of.title(),
                of.pid,
                percent(share),
                count(self.answers as f64),
                duration(each)
            ),
            evidence: vec![
                time("calls_ns", self.answer_ns, "in waits for answers"),
                evidence(
                    "in_turns_ratio",
                    turns,
                    format!(
                        "{} waits for the next request meanwhile as often, for {}; it works for {}",
                        of.name,
                        duration(self.request_ns),
                        duration(works)
                    ),
                ),
            ],
            causes: vec![cause(
                "blocking-calls",
                "the next request is made when the answer to the one before is there",
                "several requests under way at a time (Promise.all() over some dozens of Node, asyncio.gather() of Python), or several things \
                 asked for in one",
            )],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "what is asked, where it does not serve several at once"),
            share_of_thread_time: share.min(1.0),
            caveats: vec![
                "whether a request needs the answer to the one before is not known: the expected gain assumes half of them do".into(),
            ],
        })
    }
}
