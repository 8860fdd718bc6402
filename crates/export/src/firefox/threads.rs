//! The threads of a Firefox profile: their time as samples, their waits as markers.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde_json::{json, Value};

use convoy_model::{Lane, Model, Sched, SiteId, ThreadId};

use super::tables::Tables;
use super::{category, CATEGORY_FINDING, CATEGORY_OTHER};
use crate::moments::{moments, Moment, State};
use crate::stacks;
use crate::waits::off_frame;

/// A point in time; an interval.
const INSTANT: u8 = 0;
const INTERVAL: u8 = 1;

/// `RawThread` of the format.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    process_type: &'static str,
    process_startup_time: f64,
    process_shutdown_time: Option<f64>,
    register_time: f64,
    unregister_time: Option<f64>,
    paused_ranges: [(); 0],
    show_markers_in_timeline: bool,
    name: String,
    is_main_thread: bool,
    process_name: String,
    pid: String,
    tid: Value,
    samples: Samples,
    pub markers: Markers,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    stack: Vec<Option<usize>>,
    time: Vec<f64>,
    weight: Vec<f64>,
    weight_type: &'static str,
    #[serde(rename = "threadCPUDelta")]
    cpu_delta: Vec<f64>,
    length: usize,
}

/// Columns of `RawMarkerTable`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Markers {
    data: Vec<Value>,
    name: Vec<usize>,
    start_time: Vec<f64>,
    end_time: Vec<f64>,
    phase: Vec<u8>,
    category: Vec<usize>,
    length: usize,
}

impl Markers {
    fn push(&mut self, data: Value, name: usize, category: usize, from: f64, to: Option<f64>) {
        self.data.push(data);
        self.name.push(name);
        self.start_time.push(from);
        self.end_time.push(to.unwrap_or(from));
        self.phase
            .push(if to.is_some() { INTERVAL } else { INSTANT });
        self.category.push(category);
        self.length += 1;
    }

    /// A finding: it holds for the whole run.
    pub fn finding(&mut self, name: usize, data: Value, to: f64) {
        self.push(data, name, CATEGORY_FINDING, 0.0, Some(to));
    }

    /// A piece of the run, with how parallel it was.
    pub fn parallelism(&mut self, name: usize, data: Value, from: f64, to: f64) {
        self.push(data, name, CATEGORY_OTHER, from, Some(to));
    }
}

/// Milliseconds since the start of the run.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub start_ns: u64,
}

impl Clock {
    /// A point in time; those before the start are negative.
    pub fn ms(self, at_ns: u64) -> f64 {
        (i128::from(at_ns) - i128::from(self.start_ns)) as f64 / 1e6
    }
}

/// All threads of the model, without samples and markers yet.
pub fn all(model: &Model, clock: Clock) -> Vec<Thread> {
    model
        .threads
        .iter()
        .map(|thread| {
            let process = model.processes.get(thread.process.0 as usize);
            let pid = process.map_or(0, |p| p.pid);
            // Images that follow one another in one process are told apart.
            let earlier = model.processes.iter().take(thread.process.0 as usize);
            let image = earlier.filter(|p| p.pid == pid).count();
            let pid = match image {
                0 => pid.to_string(),
                image => format!("{pid}.{image}"),
            };
            let (from, to) = (clock.ms(thread.start_ns), clock.ms(thread.end_ns));
            Thread {
                is_main_thread: thread.main,
                process_name: process.map_or_else(String::new, |p| p.name.clone()),
                pid,
                tid: json!(thread.tid),
                ..Thread::new(thread.name.clone(), from, to)
            }
        })
        .collect()
}

/// Leaves out the threads that were on a CPU for the shortest time, if there are more than so many. Those that have
/// findings stay, and main threads go last.
pub fn keep_busiest(threads: &mut Vec<Thread>, most: usize) {
    if threads.len() <= most {
        return;
    }
    let mut order: Vec<usize> = (0..threads.len()).collect();
    let ranks: Vec<_> = threads.iter().map(Thread::rank).collect();
    let rank = |ix: usize| ranks.get(ix).copied().unwrap_or_default();
    order.sort_by(|&a, &b| rank(b).partial_cmp(&rank(a)).unwrap_or(Ordering::Equal));
    order.truncate(most);
    let kept: HashSet<usize> = order.into_iter().collect();
    let mut at = 0..;
    threads.retain(|_| at.next().is_some_and(|ix| kept.contains(&ix)));
}

/// Takes the flow from markers whose other end is on no thread of the profile.
pub fn drop_loose_flows(threads: &mut [Thread]) {
    let mut ends: BTreeMap<u64, usize> = BTreeMap::new();
    for data in threads.iter().flat_map(|t| &t.markers.data) {
        if let Some(flow) = data["flow"].as_u64() {
            *ends.entry(flow).or_default() += 1;
        }
    }
    for data in threads.iter_mut().flat_map(|t| &mut t.markers.data) {
        let loose = data["flow"].as_u64().filter(|flow| ends[flow] < 2);
        if let (Some(_), Some(data)) = (loose, data.as_object_mut()) {
            data.remove("flow");
        }
    }
}

/// What stands for the threads of a recording without any, of so many milliseconds: the profiler opens no profile without
/// a thread, or without a sample.
pub fn nobody(end: f64) -> Thread {
    Thread {
        is_main_thread: true,
        pid: "0".into(),
        samples: Samples {
            stack: vec![None; 2],
            time: vec![0.0, end],
            weight: vec![0.0; 2],
            cpu_delta: vec![0.0; 2],
            length: 2,
            ..Samples::default()
        },
        ..Thread::new("no thread was recorded".into(), 0.0, end)
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            stack: Vec::new(),
            time: Vec::new(),
            weight: Vec::new(),
            weight_type: "tracing-ms",
            cpu_delta: Vec::new(),
            length: 0,
        }
    }
}

impl Thread {
    /// One that lives from and to so many milliseconds; of nobody yet, without samples and markers.
    fn new(name: String, from: f64, to: f64) -> Self {
        Self {
            process_type: "default",
            process_startup_time: from.min(0.0),
            process_shutdown_time: None,
            register_time: from,
            unregister_time: Some(to),
            paused_ranges: [],
            show_markers_in_timeline: true,
            name,
            is_main_thread: false,
            process_name: String::new(),
            pid: String::new(),
            tid: json!(0),
            samples: Samples::default(),
            markers: Markers::default(),
        }
    }

    /// What is left out last: who has findings, main threads, then by CPU time.
    fn rank(&self) -> (bool, bool, f64) {
        let is_finding = |category: &usize| *category == CATEGORY_FINDING;
        let found = self.markers.category.iter().any(is_finding);
        let cpu = self.samples.cpu_delta.iter().sum();
        (found, self.is_main_thread, cpu)
    }

    /// What it did from this time on, for so long. From whole nanoseconds: a difference of milliseconds has a tail of
    /// digits that makes the file twice as large.
    fn sample(&mut self, time: f64, ns: u64, stack: usize, on_cpu: bool) {
        let samples = &mut self.samples;
        samples.stack.push(Some(stack));
        samples.time.push(time);
        samples.weight.push(ns as f64 / 1e6);
        // Microseconds of CPU time since the sample before.
        samples
            .cpu_delta
            .push(if on_cpu { ns as f64 / 1e3 } else { 0.0 });
        samples.length += 1;
    }

    /// The sum of what is known of a thread without a timeline, as if it had done one thing after the other.
    pub fn sums(&mut self, tables: &mut Tables<'_>, pieces: &[Piece], clock: Clock, start_ns: u64) {
        let mut at = clock.ms(start_ns);
        for piece in pieces {
            let stack = tables.stack(piece.site, category(piece.state), &piece.remark);
            let on_cpu = matches!(piece.state, State::Running | State::Spinning);
            self.sample(at, piece.ns, stack, on_cpu);
            at += piece.ns as f64 / 1e6;
        }
    }
}

/// Time that a thread spent on one thing, all of it together.
#[derive(Debug, Clone)]
pub struct Piece {
    pub state: State,
    pub site: Option<SiteId>,
    pub remark: String,
    pub ns: u64,
}

/// What is known of a thread without a timeline: the scheduler's sums, else the agent's.
pub fn pieces(model: &Model, id: ThreadId) -> Vec<Piece> {
    let mut pieces = Vec::new();
    if let Some(sched) = &model.sched {
        for slice in sched.slices.iter().filter(|row| row.thread == id) {
            let spins = slice.spin.is_some();
            pieces.push(Piece {
                state: if spins {
                    State::Spinning
                } else {
                    State::Running
                },
                site: slice.site,
                remark: String::new(),
                ns: slice.running_ns,
            });
        }
        for off in sched.offs.iter().filter(|row| row.thread == id) {
            pieces.push(Piece {
                state: if off.object.is_some() {
                    State::Waiting
                } else {
                    State::Blocked
                },
                site: off.site,
                remark: off_frame(model, off),
                ns: off.sum_ns,
            });
        }
    } else {
        for u in model
            .uses
            .iter()
            .filter(|u| u.thread == id && u.wait_ns > 0)
        {
            pieces.push(Piece {
                state: State::Waiting,
                site: Some(u.site),
                remark: format!("[{}]", crate::waits::object_name(model, u.object)),
                ns: u.wait_ns,
            });
        }
    }
    pieces.retain(|piece| piece.ns > 0);
    pieces
}

/// Samples and markers of one lane of the timeline. `longest`: waits that are at least as long get a marker.
pub fn lane(
    threads: &mut [Thread],
    tables: &mut Tables<'_>,
    model: &Model,
    (sched, lane): (&Sched, &Lane),
    clock: Clock,
    longest: u64,
    flows: &mut u64,
) {
    let own = lane.thread.0 as usize;
    for m in moments(sched, lane) {
        let waits = matches!(m.state, State::Waiting | State::Blocked);
        let object = m.object(model);
        let remark = match m.state {
            State::Waiting | State::Blocked => format!("[{object}]"),
            State::Ready => "[waits for a CPU]".into(),
            State::Running | State::Spinning => String::new(),
        };
        let category = category(m.state);
        let stack = tables.stack(m.site, category, &remark);
        let (from, to) = (clock.ms(m.start_ns), clock.ms(m.end_ns));
        let on_cpu = matches!(m.state, State::Running | State::Spinning);
        if let Some(thread) = threads.get_mut(own) {
            thread.sample(from, m.ns(), stack, on_cpu);
        }
        if waits && m.ns() >= longest {
            marker(
                threads,
                tables,
                model,
                &m,
                (own, &object, stack),
                (from, to),
                flows,
            );
        }
    }
}

/// The wait on the thread that waited, the wake-up on the one that gave it; one flow joins them.
fn marker(
    threads: &mut [Thread],
    tables: &mut Tables<'_>,
    model: &Model,
    m: &Moment<'_>,
    (own, object, stack): (usize, &str, usize),
    (from, to): (f64, f64),
    flows: &mut u64,
) {
    let name = tables.text(object);
    let mut data = json!({
        "type": "Wait",
        "object": name,
        "reason": m.off.map_or("unknown", |off| convoy_report::reason_id(off.reason)),
        "wokenBy": tables.text(&m.waker_name(model)),
        "cause": {"stack": stack},
    });
    let waker = m.waker().filter(|_| !m.mixed);
    if let Some((waker, site)) = waker {
        *flows += 1;
        let flow = tables.text(&format!("{flows:x}"));
        data["flow"] = json!(flow);
        let woken = tables.text(&stacks::thread_name(
            model,
            convoy_model::ThreadId(own as u32),
        ));
        let wakes = tables.text("wakes");
        let at = tables.stack(site, CATEGORY_OTHER, "");
        if let Some(thread) = threads.get_mut(waker.0 as usize) {
            let data = json!({
                "type": "Wake", "thread": woken, "object": name, "flow": flow, "cause": {"stack": at},
            });
            thread.markers.push(data, wakes, CATEGORY_OTHER, to, None);
        }
    }
    if let Some(thread) = threads.get_mut(own) {
        let category = category(m.state);
        thread.markers.push(data, name, category, from, Some(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_threads_those_that_did_least_are_left_out() {
        let model = Model {
            threads: (0..5)
                .map(|ix| convoy_model::Thread {
                    tid: ix,
                    main: ix == 0,
                    ..convoy_model::Thread::default()
                })
                .collect(),
            ..Model::default()
        };
        let mut threads = all(&model, Clock { start_ns: 0 });
        for (thread, ns) in threads.iter_mut().zip([0, 10_000, 50_000, 0, 30_000]) {
            thread.sample(0.0, ns, 0, true);
        }
        if let Some(thread) = threads.get_mut(3) {
            thread.markers.finding(0, Value::Null, 1.0);
        }
        keep_busiest(&mut threads, 4);
        let left: Vec<_> = threads.iter().map(|thread| thread.tid.clone()).collect();
        assert_eq!(left, [0, 2, 3, 4]);
        keep_busiest(&mut threads, 4);
        assert_eq!(threads.len(), 4);
    }

    #[test]
    fn a_flow_has_two_ends_or_is_none() {
        let mut threads = vec![nobody(1.0), nobody(1.0)];
        for (thread, flows) in threads.iter_mut().zip([[1, 2], [3, 1]]) {
            for flow in flows {
                let data = json!({"type": "Wait", "flow": flow});
                thread.markers.push(data, 0, CATEGORY_OTHER, 0.0, None);
            }
        }
        drop_loose_flows(&mut threads);
        let markers = threads.iter().flat_map(|thread| &thread.markers.data);
        let flows: Vec<_> = markers.map(|data| data["flow"].as_u64()).collect();
        assert_eq!(flows, [Some(1), None, None, Some(1)]);
    }
}
