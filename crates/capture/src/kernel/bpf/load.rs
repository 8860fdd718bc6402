//! Loading and attaching the programs.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use libbpf_rs::{
    num_possible_cpus, set_print, Link, MapCore, Object, ObjectBuilder, OpenObject, PrintLevel,
};
use zerocopy::IntoBytes;

use convoy_abi::{BpfConfig, BpfControl, CV_BPF_STACK_MAX};

use super::map::Mapping;
use super::ringbuf::RingBuf;
use super::rings::{events_per_ring, Rings};
use super::{sampler, unavailable, BpfOptions};
use crate::error::{os_text, Trouble};

/// Aligned as the ELF reader wants it.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/convoy.bpf.o")));

/// Stacks, samples, forks: what comes between two drains.
const RECORDS_BYTES: usize = 16 << 20;
/// Stacks leave so much of it to the rest.
const FOR_LIVES_BYTES: usize = 4 << 20;
/// With this part of it waiting to be read convoy is woken up, as with that of a ring (bpf/ring.h).
const FILLING: usize = 8;
/// On each processor, 2,000 stack copies a second...
const COPY_INTERVAL_NS: u64 = 500_000;
/// ... after 2,000 without a limit.
const COPY_BURST_NS: u64 = 2_000 * COPY_INTERVAL_NS;

/// What has been loaded.
pub(super) struct Loaded {
    pub object: Object,
    pub links: Vec<Link>,
    pub control: Mapping,
    pub rings: Rings,
    pub records: RingBuf,
    /// The map of `records`.
    pub calls: OwnedFd,
    pub warnings: Vec<Trouble>,
}

/// Loads and attaches everything; `ring_events` instead of the number that fits the machine.
pub(super) fn load(options: &BpfOptions, ring_events: Option<usize>) -> Result<Loaded, Trouble> {
    let processors =
        num_possible_cpus().map_err(|e| unavailable::refused("count processors", &e, &[]))?;
    let sizes = Sizes {
        processors,
        ring_events: ring_events.unwrap_or_else(|| events_per_ring(processors)),
        stack_bytes: options.stack_bytes.clamp(512, CV_BPF_STACK_MAX as u32),
        sampled: options.sample_period_ns > 0,
        adopts_running: options.adopts_running,
    };
    let object = load_what_can_be(&sizes)?;

    let mut links = Vec::new();
    let mut warnings = Vec::new();
    for program in object.progs_mut() {
        match program.name().to_str() {
            Some("on_task" | "name_address") => {} // run on demand
            Some("on_sample") if !sizes.sampled => {}
            Some("on_sample") => match sampler::attach(&program, options.sample_period_ns) {
                Ok(timers) => links.extend(timers),
                Err(e) => warnings.push(unavailable::no_samples(&e)),
            },
            _ => links.push(program.attach().map_err(|e| {
                unavailable::refused("attach the eBPF programs to the scheduler", &e, &[])
            })?),
        }
    }
    let fd = |name: &str| {
        let map = object.maps().find(|map| map.name() == name);
        map.map(|map| map.as_fd().try_clone_to_owned())
            .unwrap_or_else(|| Err(std::io::ErrorKind::NotFound.into()))
    };
    let mapped = || {
        let control = Mapping::new(fd("control")?.as_fd(), 0, size_of::<BpfControl>(), true)?;
        let rings = Rings::new(
            fd("rings")?.as_fd(),
            fd("events")?.as_fd(),
            processors,
            sizes.ring_events,
        )?;
        let calls = fd("records")?;
        let records = RingBuf::new(calls.as_fd(), RECORDS_BYTES)?;
        std::io::Result::Ok((control, rings, records, calls))
    };
    let (control, rings, records, calls) =
        mapped().map_err(|e| unavailable::not_mapped(&os_text(&e)))?;
    Ok(Loaded {
        object,
        links,
        control,
        rings,
        records,
        calls,
        warnings,
    })
}

/// The fourth argument of the tracepoint came with Linux 5.18, and with back-ports: asking is the only way to know. Without the program for
/// names they are read from a table.
fn load_what_can_be(sizes: &Sizes) -> Result<Object, Trouble> {
    let others = [(false, true), (true, false), (false, false)].into_iter();
    others.fold(load_object(sizes, true, true), |loaded, (state, names)| {
        loaded.or_else(|first| load_object(sizes, state, names).map_err(|_| first))
    })
}

struct Sizes {
    processors: usize,
    /// In each ring.
    ring_events: usize,
    stack_bytes: u32,
    sampled: bool,
    adopts_running: bool,
}

/// What libbpf had to say about loading.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn load_object(sizes: &Sizes, switch_has_state: bool, names: bool) -> Result<Object, Trouble> {
    // What is locked in memory is counted by control groups since Linux 5.11; the limit of this process would
    // be that of the program, too.
    // SAFETY: sets a variable of libbpf that is read while loading, which only this thread does.
    unsafe { libbpf_sys::libbpf_set_memlock_rlim(0) };
    let said = || SAID.lock().unwrap_or_else(|broken| broken.into_inner());
    said().clear();
    let printed_before = set_print(Some((PrintLevel::Warn, |_, line| {
        SAID.lock()
            .unwrap_or_else(|broken| broken.into_inner())
            .push(line);
    })));
    let loaded = open(sizes, switch_has_state, names).and_then(OpenObject::load);
    set_print(printed_before);
    loaded.map_err(|e| unavailable::refused("load the eBPF programs", &e, &said()))
}

fn open(sizes: &Sizes, switch_has_state: bool, names: bool) -> libbpf_rs::Result<OpenObject> {
    let mut object = ObjectBuilder::default().open_memory(&OBJECT.0)?;
    let config = BpfConfig {
        ring_events: sizes.ring_events as u32,
        stack_bytes: sizes.stack_bytes,
        copy_interval_ns: COPY_INTERVAL_NS,
        copy_burst_ns: COPY_BURST_NS,
        keep_free_bytes: (RECORDS_BYTES - FOR_LIVES_BYTES) as u64,
        filling_bytes: (RECORDS_BYTES / FILLING) as u64,
        switch_has_state: u32::from(switch_has_state),
        reserved: 0,
    };
    for mut map in object.maps_mut() {
        match map.name().to_str() {
            Some("rings") => map.set_max_entries(sizes.processors as u32)?,
            Some("events") => {
                map.set_max_entries((sizes.processors * sizes.ring_events) as u32)?;
            }
            Some("records") => map.set_max_entries(RECORDS_BYTES as u32)?,
            Some(name) if name.ends_with(".rodata") => map.set_initial_value(config.as_bytes())?,
            _ => {}
        }
    }
    for mut program in object.progs_mut() {
        match program.name().to_str() {
            Some("on_sample") => program.set_autoload(sizes.sampled),
            Some("on_task") => program.set_autoload(sizes.adopts_running),
            Some("name_address") => program.set_autoload(names),
            _ => {}
        }
    }
    Ok(object)
}
