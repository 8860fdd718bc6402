//! The trace of one process of a profile, decoded.

use std::collections::{BTreeMap, HashMap};

use convoy_profile as profile;
use profile::{ProcessTrace, Profile, TraceMode};

use crate::block::decode_block;
use crate::{
    Event, Kind, Losses, Mode, Object, ObjectKind, Recording, Site, Thread, ThreadIx, Window,
    NO_OBJECT, NO_SITE,
};

/// Events decoded at most: 2 GiB in memory. Those after them are left out and counted.
const MOST_EVENTS: u64 = 1 << 26;

/// Why there is no recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The profile holds no trace at all.
    #[error(
        "the profile holds no trace: nothing can be said about the order of events. \
         Record one: convoy record --trace -o FILE -- COMMAND"
    )]
    NoTrace,
    /// This process has none.
    #[error(
        "process {pid} has no trace: it had not loaded the agent, or made no event. \
         Choose another process, or see convoy doctor -- COMMAND"
    )]
    NoTraceOfProcess {
        /// Its process id; 0 = there is no such process.
        pid: u32,
    },
}

/// Decodes the trace of a process of a profile, given by its index. Damaged parts are left out, replaced by
/// [`Kind::Lost`] and counted in [`Losses::events`].
///
/// # Errors
/// The profile has no trace, or none of this process.
pub fn decode(profile: &Profile, process: u32) -> Result<Recording, DecodeError> {
    decode_at_most(profile, process, MOST_EVENTS)
}

fn decode_at_most(profile: &Profile, process: u32, most: u64) -> Result<Recording, DecodeError> {
    let traces = profile.trace.as_ref().ok_or(DecodeError::NoTrace)?;
    let of = profile.processes.get(process as usize);
    let trace = traces.processes.iter().find(|t| t.process == process);
    let (Some(of), Some(trace)) = (of, trace) else {
        let pid = of.map_or(0, |of| of.pid);
        return Err(DecodeError::NoTraceOfProcess { pid });
    };
    let mut recording = Recording {
        process,
        start_ns: trace.start_ns,
        end_ns: trace.end_ns.max(trace.start_ns),
        cpus: profile.meta.machine.cpus_allowed,
        mode: match trace.mode {
            TraceMode::Full => Mode::Full,
            TraceMode::Windows => Mode::Windows,
            TraceMode::Last(ns) => Mode::Last(ns),
        },
        windows: trace.windows.iter().map(window).collect(),
        objects: trace.objects.iter().map(|o| object(o, of)).collect(),
        sites: trace.sites.iter().map(site).collect(),
        threads: (0..).zip(&of.threads).map(thread).collect(),
        losses: Losses {
            events: trace.lost.clone(),
            windows: trace.lost_windows,
        },
    };
    events(trace, most, &mut recording);
    Ok(recording)
}

/// Fills in the events of all threads.
fn events(trace: &ProcessTrace, most: u64, recording: &mut Recording) {
    let mut order: Vec<_> = trace.blocks.iter().collect();
    order.sort_by_key(|block| block.start_ns); // stable: blocks of a thread stay in their order
    let (mut decoded, mut too_many, mut damaged) = (0, 0, 0);
    let limits = (recording.objects.len(), recording.sites.len());
    for block in order {
        let Some(thread) = recording.threads.get_mut(block.thread as usize) else {
            continue;
        };
        if decoded + u64::from(block.events) > most {
            if too_many == 0 {
                cut(&mut recording.windows, block.start_ns);
            }
            too_many += u64::from(block.events);
            continue;
        }
        let before = thread.events.last().map_or(0, |event| event.at_ns);
        let found = decode_block(block.start_ns, &block.bytes);
        let Some(found) = found.filter(|found| found.len() as u64 <= most - decoded) else {
            damaged += u64::from(block.events);
            thread.events.push(Event {
                at_ns: block.start_ns.max(before),
                arg: u64::from(block.events),
                object: NO_OBJECT,
                site: NO_SITE,
                kind: Kind::Lost,
                ..Event::default()
            });
            continue;
        };
        decoded += found.len() as u64;
        thread.events.extend(found.into_iter().map(|mut event| {
            event.at_ns = event.at_ns.max(before);
            known(&mut event, limits);
            event
        }));
    }
    for (reason, count) in [("too-many-events", too_many), ("block-damaged", damaged)] {
        if count > 0 {
            recording.losses.events.push((reason.into(), count));
        }
    }
    name_threads(trace, recording);
}

/// Forgets what leads nowhere.
fn known(event: &mut Event, (objects, sites): (usize, usize)) {
    if event.object as usize >= objects {
        event.object = NO_OBJECT;
    }
    if event.site as usize >= sites {
        event.site = NO_SITE;
    }
    if matches!(event.kind, Kind::CondWait | Kind::CondWoken) && event.arg >= objects as u64 {
        event.arg = u64::from(NO_OBJECT);
    }
}

/// Events call a created thread by its number and a joined one by its handle: here both get its index.
fn name_threads(trace: &ProcessTrace, recording: &mut Recording) {
    let numbers = trace
        .threads
        .iter()
        .map(|t| (u64::from(t.number), t.thread));
    let numbers: HashMap<u64, ThreadIx> = numbers.collect();
    // Who had a handle from when on.
    let mut handles: HashMap<u64, BTreeMap<u64, ThreadIx>> = HashMap::new();
    for (ix, thread) in (0..).zip(&mut recording.threads) {
        let starts = thread.events.iter_mut().filter(|e| e.kind == Kind::Start);
        for event in starts {
            handles
                .entry(event.arg)
                .or_default()
                .insert(event.at_ns, ix);
            event.arg = 0;
        }
    }
    let objects = &recording.objects;
    let joined = |event: &Event| {
        let object = objects.get(event.object as usize)?;
        let had = handles.get(&object.addr)?;
        let before = had.range(..=event.at_ns).next_back();
        let (_, thread) = before.or_else(|| had.iter().next())?;
        Some(u64::from(*thread))
    };
    for event in recording.threads.iter_mut().flat_map(|t| &mut t.events) {
        match event.kind {
            Kind::Create => {
                let thread = numbers.get(&event.arg);
                event.arg = thread.map_or(u64::MAX, |ix| u64::from(*ix));
            }
            Kind::JoinBegin | Kind::JoinEnd => event.arg = joined(event).unwrap_or(u64::MAX),
            _ => {}
        }
    }
}

/// Ends the windows at a point in time.
fn cut(windows: &mut Vec<Window>, end_ns: u64) {
    windows.retain(|window| window.start_ns < end_ns);
    if let Some(last) = windows.last_mut() {
        last.end_ns = last.end_ns.min(end_ns);
    }
}

fn window(raw: &profile::TraceWindow) -> Window {
    Window {
        start_ns: raw.start_ns,
        end_ns: raw.end_ns,
    }
}

fn object(raw: &profile::TraceObject, of: &profile::Process) -> Object {
    let kind = match raw.kind {
        profile::ObjectKind::Unknown => ObjectKind::Unknown,
        profile::ObjectKind::Mutex => ObjectKind::Mutex,
        profile::ObjectKind::RwLock => ObjectKind::RwLock,
        profile::ObjectKind::Spin => ObjectKind::Spin,
        profile::ObjectKind::Cond => ObjectKind::Cond,
        profile::ObjectKind::Barrier => ObjectKind::Barrier,
        profile::ObjectKind::Sem => ObjectKind::Sem,
        profile::ObjectKind::Thread => ObjectKind::Thread,
        profile::ObjectKind::Once => ObjectKind::Once,
        profile::ObjectKind::Futex => ObjectKind::Futex,
        profile::ObjectKind::OmpLock | profile::ObjectKind::OmpCritical => ObjectKind::OmpLock,
        profile::ObjectKind::OmpBarrier | profile::ObjectKind::OmpRegion => ObjectKind::OmpBarrier,
    };
    let known = raw.object.and_then(|ix| of.objects.get(ix as usize));
    Object {
        addr: raw.addr,
        kind,
        profile_object: raw.object.filter(|_| known.is_some()),
        attr: match raw.attr {
            u32::MAX => known.map_or(0, |object| object.attr),
            attr => attr,
        },
    }
}

fn site(raw: &profile::TraceSite) -> Site {
    Site {
        pc: raw.pc,
        frame: raw.frame,
        stack: raw.stack,
    }
}

fn thread((profile_thread, of): (u32, &profile::Thread)) -> Thread {
    Thread {
        profile_thread,
        tid: of.tid,
        name: of.name.clone(),
        events: Vec::new(),
    }
}
