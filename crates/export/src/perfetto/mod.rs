//! Perfetto's trace format: switches and wake-ups for its own thread states and critical path, and on top of
//! them what they do not know: what was waited for, where, who ended it, and the findings.

mod intern;
mod proto;
mod sched;

use std::collections::BTreeMap;
use std::io::Write;

use convoy_model::{Model, ObjectId, ThreadId};
use convoy_report::Report;
use prost::Message;

use crate::moments::{self, moments, timeline, State};
use crate::{waits, Error};
use intern::Interned;
use proto::{
    CounterDescriptor, Process, ProcessDescriptor, ProcessTree, Thread, ThreadDescriptor, Trace,
    TracePacket, TrackDescriptor, TrackEvent, COUNTER, INSTANT, SLICE_BEGIN, SLICE_END,
};

/// Packets of one writer; what it interned is valid in them.
const EVENTS: u32 = 1;
const KERNEL: u32 = 2;

/// Locks whose waiters are counted over time.
const LOCKS: usize = 16;

/// Rows by what they are about, so that none has the number of another.
const FINDINGS: u64 = 1 << 32;
const COUNTERS: u64 = 2 << 32;
const WAITERS: u64 = 3 << 32;
const PROCESSES: u64 = 4 << 32;
const THREADS: u64 = 5 << 32;

/// Writes the trace. Times are the machine's monotonic clock, as in the profile.
pub fn trace(report: &Report<'_>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let model = report.model;
    let mut w = Writer {
        out,
        interned: Interned::default(),
        started: false,
    };
    w.packet(TracePacket {
        process_tree: Some(tree(model)),
        timestamp: Some(model.meta.start_ns),
        trusted_packet_sequence_id: KERNEL,
        ..TracePacket::default()
    })?;
    w.rows(model)?;
    w.findings(report)?;
    w.parallelism(model)?;
    sched::bundles(model, &mut |bundle| {
        w.packet(TracePacket {
            ftrace_events: Some(bundle),
            trusted_packet_sequence_id: KERNEL,
            ..TracePacket::default()
        })
    })?;
    w.waits(model)?;
    w.waiters(model)?;
    Ok(moments::remarks(model))
}

/// Ids are signed there.
fn number(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

fn tree(model: &Model) -> ProcessTree {
    // After an exec the last image has the name.
    let processes: BTreeMap<u32, Process> = model
        .processes
        .iter()
        .map(|p| {
            let process = Process {
                pid: number(p.pid),
                ppid: number(p.ppid),
                cmdline: vec![p.name.clone()],
            };
            (p.pid, process)
        })
        .collect();
    let pid = |thread: &convoy_model::Thread| {
        let process = model.processes.get(thread.process.0 as usize);
        process.map_or(0, |p| number(p.pid))
    };
    let threads = model.threads.iter().filter(|t| t.tid > 0);
    ProcessTree {
        processes: processes.into_values().collect(),
        threads: threads
            .map(|t| Thread {
                tid: number(t.tid),
                name: t.name.clone(),
                tgid: pid(t),
            })
            .collect(),
    }
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    interned: Interned,
    started: bool,
}

impl Writer<'_> {
    fn packet(&mut self, packet: TracePacket) -> Result<(), Error> {
        let trace = Trace {
            packet: vec![packet],
        };
        Ok(self.out.write_all(&trace.encode_to_vec())?)
    }

    fn event(&mut self, at_ns: u64, event: TrackEvent) -> Result<(), Error> {
        const CLEARED: u32 = 1;
        const NEEDS: u32 = 2;
        let first = !std::mem::replace(&mut self.started, true);
        let interned_data = self.interned.take();
        self.packet(TracePacket {
            timestamp: Some(at_ns),
            trusted_packet_sequence_id: EVENTS,
            track_event: Some(event),
            interned_data,
            sequence_flags: if first { CLEARED | NEEDS } else { NEEDS },
            ..TracePacket::default()
        })
    }

    fn row(&mut self, track: TrackDescriptor) -> Result<(), Error> {
        self.packet(TracePacket {
            trusted_packet_sequence_id: EVENTS,
            track_descriptor: Some(track),
            ..TracePacket::default()
        })
    }

    fn rows(&mut self, model: &Model) -> Result<(), Error> {
        for p in &model.processes {
            self.row(TrackDescriptor {
                uuid: PROCESSES + u64::from(p.pid),
                process: Some(ProcessDescriptor {
                    pid: Some(number(p.pid)),
                    process_name: Some(p.name.clone()),
                }),
                ..TrackDescriptor::default()
            })?;
        }
        for (ix, thread) in model.threads.iter().enumerate() {
            let process = model.processes.get(thread.process.0 as usize);
            self.row(TrackDescriptor {
                uuid: THREADS + ix as u64,
                thread: Some(ThreadDescriptor {
                    pid: process.map(|p| number(p.pid)),
                    tid: Some(i64::from(thread.tid)),
                    thread_name: Some(thread.name.clone()),
                }),
                ..TrackDescriptor::default()
            })?;
        }
        Ok(())
    }

    /// A row for each, as long as the run.
    fn findings(&mut self, report: &Report<'_>) -> Result<(), Error> {
        let meta = &report.model.meta;
        for (ix, finding) in report.analysis.findings.iter().enumerate() {
            let uuid = FINDINGS + ix as u64;
            self.row(TrackDescriptor {
                uuid,
                name: Some(format!("Finding {}: {}", ix + 1, finding.id)),
                ..TrackDescriptor::default()
            })?;
            let (texts, gain) = (&mut self.interned, &finding.gain);
            let mut notes = vec![
                texts.number("predicted_gain", gain.mid),
                texts.number("predicted_gain_low", gain.low),
                texts.number("predicted_gain_high", gain.high),
            ];
            notes.extend(finding.evidence.iter().map(|e| texts.note(e.key, &e.text)));
            notes.extend(finding.causes.iter().map(|c| texts.note("fix", &c.fix)));
            let begin = TrackEvent {
                r#type: Some(SLICE_BEGIN),
                track_uuid: Some(uuid),
                name: Some(finding.title.clone()),
                category_iids: texts.category("finding"),
                debug_annotations: notes,
                ..TrackEvent::default()
            };
            self.event(meta.start_ns, begin)?;
            self.event(meta.end_ns, end(uuid))?;
        }
        Ok(())
    }

    /// Numbers of threads over time, the means of equal pieces of the run.
    fn parallelism(&mut self, model: &Model) -> Result<(), Error> {
        let Some(sched) = &model.sched else {
            return Ok(());
        };
        type Value = fn(&convoy_model::Bin) -> u64;
        let rows: [(&str, Value); 3] = [
            ("threads active", |bin| bin.active_ns),
            ("threads working", |bin| bin.working_ns),
            ("threads on a CPU", |bin| bin.running_ns),
        ];
        for (ix, (name, value)) in rows.into_iter().enumerate() {
            let uuid = COUNTERS + ix as u64;
            self.counter_row(uuid, name)?;
            let mut at_ns = sched.start_ns;
            for bin in &sched.bins {
                let end_ns = at_ns.saturating_add(sched.bin_width_ns).min(sched.end_ns);
                let width = end_ns.saturating_sub(at_ns).max(1);
                self.count(at_ns, uuid, value(bin) as f64 / width as f64)?;
                at_ns = end_ns;
            }
            self.count(sched.end_ns, uuid, 0.0)?;
        }
        Ok(())
    }

    /// A slice for every wait; the wake-up that ended it as an arrow from the thread that gave it.
    fn waits(&mut self, model: &Model) -> Result<(), Error> {
        let Some((sched, timeline)) = timeline(model) else {
            return Ok(());
        };
        let mut flow = 0;
        for lane in &timeline.lanes {
            let track = THREADS + u64::from(lane.thread.0);
            let all = moments(sched, lane);
            for m in all.filter(|m| matches!(m.state, State::Waiting | State::Blocked)) {
                let texts = &mut self.interned;
                let mut notes = vec![texts.note("woken_by", &m.waker_name(model))];
                if let Some(off) = m.off {
                    notes.push(texts.note("reason", convoy_report::reason_id(off.reason)));
                }
                if m.mixed {
                    notes.push(texts.note("joined", "stands for several short ones"));
                }
                let begin = TrackEvent {
                    r#type: Some(SLICE_BEGIN),
                    track_uuid: Some(track),
                    name_iid: Some(texts.name(&m.object(model))),
                    category_iids: texts.category(category(m.state)),
                    callstack_iid: texts.stack(model, m.site),
                    debug_annotations: notes,
                    ..TrackEvent::default()
                };
                self.event(m.start_ns, begin)?;
                self.event(m.end_ns, end(track))?;
                if let Some((waker, site)) = m.waker().filter(|_| !m.mixed) {
                    flow += 1;
                    self.wake(model, m.end_ns, (waker, site), lane.thread, flow)?;
                }
            }
        }
        Ok(())
    }

    fn wake(
        &mut self,
        model: &Model,
        at_ns: u64,
        (waker, site): (ThreadId, Option<convoy_model::SiteId>),
        woken: ThreadId,
        flow: u64,
    ) -> Result<(), Error> {
        let name = format!("wakes {}", crate::stacks::thread_name(model, woken));
        let gives = TrackEvent {
            r#type: Some(INSTANT),
            track_uuid: Some(THREADS + u64::from(waker.0)),
            name_iid: Some(self.interned.name(&name)),
            category_iids: self.interned.category("wake"),
            callstack_iid: self.interned.stack(model, site),
            flow_ids: vec![flow],
            ..TrackEvent::default()
        };
        self.event(at_ns, gives)?;
        let takes = TrackEvent {
            r#type: Some(INSTANT),
            track_uuid: Some(THREADS + u64::from(woken.0)),
            name_iid: Some(self.interned.name("woken")),
            category_iids: self.interned.category("wake"),
            terminating_flow_ids: vec![flow],
            ..TrackEvent::default()
        };
        self.event(at_ns, takes)
    }

    /// How many threads wait for each of the objects that are waited for most.
    fn waiters(&mut self, model: &Model) -> Result<(), Error> {
        let Some((sched, timeline)) = timeline(model) else {
            return Ok(());
        };
        let waits = || {
            let all = timeline.lanes.iter().flat_map(|lane| moments(sched, lane));
            let waiting = all.filter(|m| m.state == State::Waiting);
            waiting.filter_map(|m| Some((m.off?.object?, m)))
        };
        let mut sums: BTreeMap<ObjectId, u64> = BTreeMap::new();
        for (id, m) in waits() {
            *sums.entry(id).or_default() += m.ns();
        }
        let mut ranked: Vec<_> = sums.into_iter().map(|(id, ns)| (ns, id)).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.truncate(LOCKS);
        let mut steps: BTreeMap<ObjectId, Vec<(u64, i32)>> =
            ranked.iter().map(|(_, id)| (*id, Vec::new())).collect();
        for (id, m) in waits() {
            if let Some(steps) = steps.get_mut(&id) {
                steps.extend([(m.start_ns, 1), (m.end_ns, -1)]);
            }
        }
        for (ix, (_, id)) in ranked.into_iter().enumerate() {
            let uuid = WAITERS + ix as u64;
            self.counter_row(
                uuid,
                &format!("waiting for {}", waits::object_name(model, id)),
            )?;
            let mut steps = steps.remove(&id).unwrap_or_default();
            steps.sort_unstable();
            let mut waiting = 0;
            for at_once in steps.chunk_by(|a, b| a.0 == b.0) {
                waiting += at_once.iter().map(|(_, step)| step).sum::<i32>();
                let at_ns = at_once.first().map_or(0, |(at_ns, _)| *at_ns);
                self.count(at_ns, uuid, f64::from(waiting))?;
            }
        }
        Ok(())
    }

    fn counter_row(&mut self, uuid: u64, name: &str) -> Result<(), Error> {
        self.row(TrackDescriptor {
            uuid,
            name: Some(name.to_owned()),
            counter: Some(CounterDescriptor {
                unit_name: Some("threads".into()),
            }),
            ..TrackDescriptor::default()
        })
    }

    fn count(&mut self, at_ns: u64, uuid: u64, value: f64) -> Result<(), Error> {
        let event = TrackEvent {
            r#type: Some(COUNTER),
            track_uuid: Some(uuid),
            double_counter_value: Some(value),
            ..TrackEvent::default()
        };
        self.event(at_ns, event)
    }
}

fn category(state: State) -> &'static str {
    if state == State::Waiting {
        "wait"
    } else {
        "block"
    }
}

fn end(track: u64) -> TrackEvent {
    TrackEvent {
        r#type: Some(SLICE_END),
        track_uuid: Some(track),
        ..TrackEvent::default()
    }
}
