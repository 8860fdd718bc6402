//! The loops around an instruction.
//!
//! Everything that shares a loop with an instruction can be reached from it, so it is enough to follow the
//! code forward from there: no instruction start before it need be known.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// A loop's instructions lie this close to each other, bytes.
const SPAN: u64 = 256;
/// A loop of more instructions is not looked at: dependences are sets of 64.
pub(crate) const LONGEST: usize = 64;
/// Loops of one instruction that are looked at. Real code has a handful.
const MOST_LOOPS: usize = 12;
/// Regions that are searched for loops.
const MOST_REGIONS: usize = 24;

/// A piece of code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window<'a> {
    pub code: &'a [u8],
    pub base: u64,
}

/// An instruction and where it goes.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub instr: Instruction,
    pub next: Vec<u64>,
}

/// Instructions by address.
pub(crate) type Graph = BTreeMap<u64, Node>;

/// A loop: the instructions on the ways round through one backward branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    /// Target of the branch.
    pub head: u64,
    pub members: BTreeSet<u64>,
}

impl Window<'_> {
    pub fn decode(&self, ip: u64) -> Option<Instruction> {
        let at = usize::try_from(ip.checked_sub(self.base)?).ok()?;
        let code = self.code.get(at..)?;
        let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
        let instr = decoder.decode();
        (!instr.is_invalid()).then_some(instr)
    }

    /// What can be reached from `ip` close to it.
    pub fn reachable(&self, ip: u64) -> Graph {
        let mut graph = Graph::new();
        let mut todo = vec![ip];
        while let Some(at) = todo.pop() {
            if graph.contains_key(&at) || at.abs_diff(ip) > SPAN {
                continue;
            }
            let Some(instr) = self.decode(at) else {
                continue;
            };
            let next = successors(&instr);
            todo.extend(&next);
            graph.insert(at, Node { instr, next });
        }
        graph
    }

    /// Conditional branches that end at `ip` and go back: the end of a loop that has just been left. What is
    /// before `ip` need not be an instruction; a loop that waits must then be found there all the same.
    pub fn branches_back_before(&self, ip: u64) -> Vec<u64> {
        let starts = [2, 6].iter().filter_map(|len| ip.checked_sub(*len));
        starts
            .filter(|&at| {
                self.decode(at).is_some_and(|i| {
                    i.next_ip() == ip
                        && i.flow_control() == FlowControl::ConditionalBranch
                        && i.near_branch_target() < at
                        && at - i.near_branch_target() <= SPAN
                })
            })
            .collect()
    }
}

/// Where an instruction may go on. One that uses a null pointer goes nowhere: compilers keep what cannot happen.
pub(crate) fn successors(instr: &Instruction) -> Vec<u64> {
    if is_null(instr) {
        return Vec::new();
    }
    match instr.flow_control() {
        FlowControl::Next
        | FlowControl::Call
        | FlowControl::IndirectCall
        | FlowControl::XbeginXabortXend => vec![instr.next_ip()],
        FlowControl::ConditionalBranch => vec![instr.next_ip(), instr.near_branch_target()],
        FlowControl::UnconditionalBranch => vec![instr.near_branch_target()],
        FlowControl::IndirectBranch
        | FlowControl::Return
        | FlowControl::Interrupt
        | FlowControl::Exception => Vec::new(),
    }
}

/// It loads from the first pages of memory, where nothing is.
fn is_null(instr: &Instruction) -> bool {
    const FIRST: u64 = 1 << 12;
    let absolute = instr.memory_base() == Register::None
        && instr.memory_index() == Register::None
        && instr.segment_prefix() == Register::None;
    let operand = (0..instr.op_count()).any(|op| instr.op_kind(op) == OpKind::Memory);
    operand
        && absolute
        && instr.mnemonic() != Mnemonic::Lea
        && instr.mnemonic() != Mnemonic::Nop
        && instr.memory_displacement64() < FIRST
}

/// All loops that contain `ip`, smallest first.
pub(crate) fn loops(graph: &Graph, ip: u64) -> Vec<Body> {
    let mut bodies: Vec<Body> = Vec::new();
    let mut regions = vec![component(graph, ip, &graph.keys().copied().collect())];
    let mut seen = 0;
    // An inner loop that is entered in its middle shows only once the outer one's head is taken away.
    while let Some(region) = regions.get(seen).cloned() {
        seen += 1;
        let back: Vec<(u64, u64)> = region
            .iter()
            .flat_map(|&at| targets(graph, at).map(move |to| (at, to)))
            .filter(|&(at, to)| to <= at && region.contains(&to))
            .collect();
        let before = predecessors(graph, &region);
        for &(from, head) in &back {
            let body = Body {
                head,
                members: natural(&before, from, head),
            };
            if body.members.contains(&ip) && !bodies.contains(&body) {
                bodies.push(body);
            }
        }
        let heads: BTreeSet<u64> = back.iter().map(|&(_, head)| head).collect();
        for head in heads.into_iter().filter(|&head| head != ip) {
            if regions.len() >= MOST_REGIONS {
                break;
            }
            let mut rest = region.clone();
            rest.remove(&head);
            let inner = component(graph, ip, &rest);
            if is_whole(&inner, &region) && !regions.contains(&inner) {
                regions.push(inner);
            }
        }
    }
    bodies.retain(|b| b.members.len() <= LONGEST && span(&b.members) <= SPAN);
    bodies.sort_by_key(|b| b.members.len());
    bodies.truncate(MOST_LOOPS);
    bodies
}

/// An inner loop lies in one piece: what is left of a loop whose inner loop is cut out does not.
fn is_whole(inner: &BTreeSet<u64>, region: &BTreeSet<u64>) -> bool {
    match (inner.first(), inner.last()) {
        (Some(lo), Some(hi)) => region.range(lo..=hi).count() == inner.len(),
        _ => false,
    }
}

/// There is such an instruction on some way from `ip` back to it.
pub(crate) fn passes(graph: &Graph, ip: u64, is: impl Fn(&Instruction) -> bool) -> bool {
    let round = component(graph, ip, &graph.keys().copied().collect());
    let mut nodes = round.iter().filter_map(|at| graph.get(at));
    nodes.any(|node| is(&node.instr))
}

fn targets(graph: &Graph, at: u64) -> impl Iterator<Item = u64> + '_ {
    graph
        .get(&at)
        .into_iter()
        .flat_map(|n| n.next.iter().copied())
}

fn span(members: &BTreeSet<u64>) -> u64 {
    match (members.first(), members.last()) {
        (Some(lo), Some(hi)) => hi - lo,
        _ => 0,
    }
}

/// What goes to an instruction.
type Before = BTreeMap<u64, Vec<u64>>;

/// The instructions of a region from which `from` is reached without passing `head`, and `head`.
fn natural(before: &Before, from: u64, head: u64) -> BTreeSet<u64> {
    let mut members = BTreeSet::from([head]);
    let mut todo = vec![from];
    while let Some(at) = todo.pop() {
        if members.insert(at) {
            todo.extend(before.get(&at).into_iter().flatten());
        }
    }
    members
}

fn predecessors(graph: &Graph, region: &BTreeSet<u64>) -> Before {
    let mut before = Before::new();
    for &at in region {
        for to in targets(graph, at).filter(|to| region.contains(to)) {
            before.entry(to).or_default().push(at);
        }
    }
    before
}

/// What lies on a way from `ip` to itself within a region.
fn component(graph: &Graph, ip: u64, region: &BTreeSet<u64>) -> BTreeSet<u64> {
    let mut after = BTreeSet::new();
    let mut todo: Vec<u64> = targets(graph, ip).collect();
    while let Some(at) = todo.pop() {
        if region.contains(&at) && after.insert(at) {
            todo.extend(targets(graph, at));
        }
    }
    if !after.contains(&ip) {
        return BTreeSet::new();
    }
    let before = predecessors(graph, &after);
    let mut both = BTreeSet::new();
    let mut todo = vec![ip];
    while let Some(at) = todo.pop() {
        if both.insert(at) {
            todo.extend(before.get(&at).into_iter().flatten());
        }
    }
    both
}
