//! What events know by address, as indices of the profile.

use std::collections::HashMap;

use convoy_profile::{
    Frame, FrameIx, ObjectIx, ObjectKind, Process, ProcessTrace, Reason, Symbol, TraceObject,
    TraceSite, TraceThread,
};

use super::{span, Image};
use crate::arena::Late;

/// The trace of a process image; frames of its call sites are added to the process. `late`: what its arena
/// calls by numbers.
pub(super) fn trace(image: Image, ix: u32, of: &mut Process, late: &Late) -> ProcessTrace {
    let frames = frames(of, image.tables.sites.iter().map(|site| site.pc));
    let sites = image.tables.sites.iter().zip(frames);
    let sites = sites.map(|(site, frame)| TraceSite {
        pc: site.pc,
        frame,
        stack: late.stacks.get(&site.stack).copied().unwrap_or(0),
    });
    // The latest of each address and kind.
    let known = (0..).zip(&of.objects);
    let known: HashMap<(u64, ObjectKind), ObjectIx> =
        known.map(|(ix, o)| ((o.addr, o.kind), ix)).collect();
    let objects = image.tables.objects.iter().map(|object| TraceObject {
        addr: object.addr,
        kind: object.kind,
        attr: object.attr,
        object: known.get(&(object.addr, object.kind)).copied(),
    });
    let numbers = late.threads.iter();
    let mut threads: Vec<TraceThread> = numbers
        .map(|(&number, &thread)| TraceThread { number, thread })
        .collect();
    threads.sort_by_key(|t| t.number);
    // Signal handlers may use locks after the agent's last word.
    let latest = image.blocks.iter().map(|block| block.end_ns).max();
    let end_ns = of.end_ns.max(latest.unwrap_or(0));
    let mut blocks = Vec::with_capacity(image.blocks.len());
    let mut unknown = 0;
    for block in image.blocks {
        match late.threads.get(&block.thread) {
            Some(&thread) => blocks.push(block.into_block(thread)),
            None => unknown += u64::from(block.events),
        }
    }
    let mut lost = image.lost;
    if unknown > 0 {
        lost.push(("thread-unknown".into(), unknown));
    }
    let (mode, windows) = image.windows.finish(end_ns);
    ProcessTrace {
        process: ix,
        mode,
        start_ns: span(&windows, image.start_ns, mode),
        end_ns,
        sees_preemptions: image.sees_preemptions,
        lost,
        lost_windows: image.lost_windows,
        windows,
        objects: objects.collect(),
        sites: sites.collect(),
        threads,
        blocks,
    }
}

/// The frames of return addresses, made where there is none.
fn frames(of: &mut Process, addresses: impl Iterator<Item = u64>) -> Vec<FrameIx> {
    let frames = of.frames.iter().zip(0..).filter(|(frame, _)| !frame.exact);
    let mut known: HashMap<u64, FrameIx> = frames.map(|(frame, ix)| (frame.pc, ix)).collect();
    addresses
        .map(|pc| {
            let next = of.frames.len() as FrameIx;
            let ix = *known.entry(pc).or_insert(next);
            if ix == next {
                let at = pc.wrapping_sub(1);
                let module = of.modules.iter().rposition(|m| (m.lo..m.hi).contains(&at));
                let bias = module.map_or(0, |ix| of.modules[ix].bias);
                of.frames.push(Frame {
                    pc,
                    module: module.map(|ix| ix as u32),
                    offset: pc.wrapping_sub(bias),
                    exact: false,
                    no_rule: false,
                    symbol: Symbol::Unknown(Reason::NotResolved),
                });
            }
            ix
        })
        .collect()
}
