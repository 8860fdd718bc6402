//! What the tables point to: every use, pair, object and call stack of the model.

use convoy_model::Model;
use serde::Serialize;

use super::frame::{frame, FrameOut};
use crate::names;

#[derive(Serialize)]
pub struct UseOut {
    object: u32,
    stack: u32,
    thread: u32,
    op: Option<&'static str>,
    calls_count: u64,
    failed_count: u64,
    estimated: bool,
    waits_count: u64,
    wait_ns: u64,
    wait_max_ns: u64,
    timeouts_count: u64,
    timeout_ns: u64,
    unfinished_ns: u64,
    hold_contended_count: u64,
    hold_contended_ns: u64,
    hold_sampled_count: u64,
    hold_sampled_ns: u64,
    hold_max_ns: u64,
    last_arrivals_count: u64,
    busy_ns: u64,
}

pub fn uses(model: &Model) -> Vec<UseOut> {
    let one = |u: &convoy_model::Use| UseOut {
        object: u.object.0,
        stack: u.site.0,
        thread: u.thread.0,
        op: u.op.map(names::op),
        calls_count: u.calls,
        failed_count: u.failed,
        estimated: u.estimated,
        waits_count: u.waits,
        wait_ns: u.wait_ns,
        wait_max_ns: u.wait_max_ns,
        timeouts_count: u.timeouts,
        timeout_ns: u.timeout_ns,
        unfinished_ns: u.unfinished_ns,
        hold_contended_count: u.hold_contended_n,
        hold_contended_ns: u.hold_contended_ns,
        hold_sampled_count: u.hold_sampled_n,
        hold_sampled_ns: u.hold_sampled_ns,
        hold_max_ns: u.hold_max_ns,
        last_arrivals_count: u.last_arrivals,
        busy_ns: u.busy_ns,
    };
    model.uses.iter().map(one).collect()
}

#[derive(Serialize)]
pub struct PairOut<'a> {
    object: u32,
    waiter_thread: u32,
    waiter_stack: u32,
    peer_thread: Option<u32>,
    peer_acquired_frames: Vec<FrameOut<'a>>,
    peer_released_stack: Option<u32>,
    waits_count: u64,
    wait_ns: u64,
    wait_max_ns: u64,
}

pub fn pairs(model: &Model) -> Vec<PairOut<'_>> {
    model.pairs.iter().map(pair).collect()
}

fn pair(p: &convoy_model::Pair) -> PairOut<'_> {
    PairOut {
        object: p.object.0,
        waiter_thread: p.thread.0,
        waiter_stack: p.site.0,
        peer_thread: p.peer.map(|id| id.0),
        peer_acquired_frames: p.peer_acquired_at.iter().map(frame).collect(),
        peer_released_stack: p.peer_site.map(|id| id.0),
        waits_count: p.waits,
        wait_ns: p.wait_ns,
        wait_max_ns: p.wait_max_ns,
    }
}

#[derive(Serialize)]
pub struct ObjectOut<'a> {
    id: usize,
    process: u32,
    kind: &'static str,
    name: &'a str,
    address: String,
    init_stack: Option<u32>,
    lives_count: u32,
    futex_of: Option<String>,
}

pub fn objects(model: &Model) -> Vec<ObjectOut<'_>> {
    model
        .objects
        .iter()
        .enumerate()
        .map(|(id, o)| object(id, o))
        .collect()
}

fn object(id: usize, o: &convoy_model::Object) -> ObjectOut<'_> {
    ObjectOut {
        id,
        process: o.process.0,
        kind: names::kind(o.kind),
        name: &o.name,
        address: format!("0x{:x}", o.addr),
        init_stack: o.init_site.map(|id| id.0),
        lives_count: o.lives,
        futex_of: o.futex_of.map(|of| format!("{of:?}")),
    }
}

#[derive(Serialize)]
pub struct StackOut<'a> {
    id: usize,
    process: u32,
    label: String,
    shown: usize,
    own: Option<usize>,
    frames: Vec<FrameOut<'a>>,
}

pub fn stacks(model: &Model) -> Vec<StackOut<'_>> {
    model
        .sites
        .iter()
        .enumerate()
        .map(|(id, s)| stack(id, s))
        .collect()
}

fn stack(id: usize, s: &convoy_model::Site) -> StackOut<'_> {
    StackOut {
        id,
        process: s.process.0,
        label: names::site(s),
        shown: s.shown,
        own: s.own,
        frames: s.frames.iter().map(frame).collect(),
    }
}
