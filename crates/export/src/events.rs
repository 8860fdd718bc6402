//! Traces as comma-separated values (RFC 4180): one event a line, in order of time.

use std::io;

use convoy_profile::{Process, Profile, Symbol};
use convoy_trace::{decode, Event, Kind, ObjectKind, Recording, NO_CPU};

use crate::Error;

/// Columns; docs/exports.md says what is in each.
const COLUMNS: [&str; 11] = [
    "pid",
    "tid",
    "thread",
    "at_ns",
    "cpu",
    "kind",
    "object_kind",
    "object",
    "object_name",
    "site",
    "arg",
];

/// Writes the events of all processes, or of the one with this pid.
///
/// # Errors
/// The profile has no trace of it, or `out` fails.
pub fn events(profile: &Profile, pid: Option<u32>, out: &mut dyn io::Write) -> Result<(), Error> {
    let mut out = ::csv::Writer::from_writer(out);
    out.write_record(COLUMNS).map_err(io::Error::from)?;
    let mut found = false;
    let wanted = (0..).zip(&profile.processes);
    for (ix, process) in wanted.filter(|(_, p)| pid.is_none_or(|pid| p.pid == pid)) {
        if let Ok(recording) = decode(profile, ix) {
            found = true;
            write(process, &recording, &mut out).map_err(io::Error::from)?;
        }
    }
    out.flush()?;
    match found {
        true => Ok(()),
        false => Err(Error::NoTrace),
    }
}

fn write<W: io::Write>(
    of: &Process,
    recording: &Recording,
    out: &mut ::csv::Writer<W>,
) -> ::csv::Result<()> {
    let threads = recording.threads.iter().enumerate();
    let mut order: Vec<(u64, usize, usize)> = threads
        .flat_map(|(thread, t)| {
            let events = t.events.iter().enumerate();
            events.map(move |(i, event)| (event.at_ns, thread, i))
        })
        .collect();
    order.sort_unstable();
    let sites: Vec<String> = recording.sites.iter().map(|s| site(of, s)).collect();
    let pid = of.pid.to_string();
    let mut row: Vec<String> = vec![String::new(); COLUMNS.len()];
    for (at_ns, thread, i) in order {
        let thread = &recording.threads[thread];
        let event = &thread.events[i];
        let object = recording.objects.get(event.object as usize);
        row.clear();
        row.push(pid.clone());
        row.push(thread.tid.to_string());
        row.push(thread.name.clone());
        row.push(at_ns.to_string());
        row.push(match event.cpu {
            NO_CPU => String::new(),
            cpu => cpu.to_string(),
        });
        row.push(kind(event.kind).into());
        row.push(object.map_or("", |o| object_kind(o.kind)).into());
        row.push(object.map_or_else(String::new, |o| format!("{:#x}", o.addr)));
        let known = object.and_then(|o| of.objects.get(o.profile_object? as usize));
        row.push(known.and_then(|o| o.symbol.clone()).unwrap_or_default());
        row.push(sites.get(event.site as usize).cloned().unwrap_or_default());
        row.push(argument(recording, event));
        out.write_record(&row)?;
    }
    Ok(())
}

/// What the argument stands for: the mutex of a wait on a condition, the tid of a created or joined thread.
fn argument(recording: &Recording, event: &Event) -> String {
    let known = match event.kind {
        Kind::CondWait | Kind::CondWoken => {
            let mutex = recording.objects.get(event.arg as usize);
            mutex.map(|mutex| format!("{:#x}", mutex.addr))
        }
        Kind::Create | Kind::JoinBegin | Kind::JoinEnd => {
            let thread = recording.threads.get(event.arg as usize);
            thread.map(|thread| thread.tid.to_string())
        }
        _ => Some(event.arg.to_string()),
    };
    known.unwrap_or_default()
}

/// "function at file:line", or the address.
fn site(of: &Process, site: &convoy_trace::Site) -> String {
    let frame = of.frames.get(site.frame as usize);
    let Some(Symbol::Known(names)) = frame.map(|frame| &frame.symbol) else {
        return format!("{:#x}", site.pc);
    };
    let Some(name) = names.first() else {
        return format!("{:#x}", site.pc);
    };
    match (&name.file, name.line) {
        (Some(file), Some(line)) => format!("{} at {file}:{line}", name.function),
        _ => name.function.clone(),
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Acquired => "acquired",
        Kind::AcquiredShared => "acquired-shared",
        Kind::Request => "request",
        Kind::RequestShared => "request-shared",
        Kind::AcquiredAfterWait => "acquired-after-wait",
        Kind::TryAcquired => "try-acquired",
        Kind::TryFailed => "try-failed",
        Kind::TimedOut => "timed-out",
        Kind::Released => "released",
        Kind::Woke => "woke",
        Kind::CondWait => "cond-wait",
        Kind::CondWoken => "cond-woken",
        Kind::Signal => "signal",
        Kind::Broadcast => "broadcast",
        Kind::BarrierArrive => "barrier-arrive",
        Kind::BarrierLeave => "barrier-leave",
        Kind::SemRequest => "sem-request",
        Kind::SemAcquired => "sem-acquired",
        Kind::SemPost => "sem-post",
        Kind::OnceBegin => "once-begin",
        Kind::OnceEnd => "once-end",
        Kind::FutexWait => "futex-wait",
        Kind::FutexWoken => "futex-woken",
        Kind::FutexWake => "futex-wake",
        Kind::Create => "create",
        Kind::JoinBegin => "join-begin",
        Kind::JoinEnd => "join-end",
        Kind::Start => "start",
        Kind::End => "end",
        Kind::Preempted => "preempted",
        Kind::OffCpu => "off-cpu",
        Kind::Lost => "lost",
        Kind::CpuTime => "cpu-time",
    }
}

fn object_kind(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Unknown => "",
        ObjectKind::Mutex => "mutex",
        ObjectKind::RwLock => "rwlock",
        ObjectKind::Spin => "spin-lock",
        ObjectKind::Cond => "condition",
        ObjectKind::Barrier => "barrier",
        ObjectKind::Sem => "semaphore",
        ObjectKind::Thread => "thread",
        ObjectKind::Once => "once",
        ObjectKind::Futex => "futex",
        ObjectKind::OmpLock => "omp-lock",
        ObjectKind::OmpBarrier => "omp-barrier",
    }
}
