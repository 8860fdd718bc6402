//! Where a function is patched: at its entry, and at all of its exits.
//!
//! A patch is a jump of five bytes. The instructions that it overwrites run elsewhere
//! ([`crate::stub`]). Behind an exit it may also take padding. Execution must never come to a byte
//! strictly inside of it.

use std::fmt;
use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

use crate::module::Module;
use crate::relocate::{is_call, is_relative_branch, PATCH_BYTES};

/// Instructions before an indirect jump that are searched for how its target is made.
const BEFORE_JUMP: usize = 12;
/// Parts of a function that the compiler has put elsewhere.
const MAX_PARTS: usize = 8;

/// An instruction that a patch displaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// As it was decoded at its place.
    pub instruction: Instruction,
    /// It leaves the function.
    pub is_exit: bool,
}

/// A place that is patched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Of the first byte.
    pub at: u64,
    /// It is the function's beginning.
    pub is_entry: bool,
    /// What is displaced: at least [`PATCH_BYTES`], with padding behind the last one.
    pub steps: Vec<Step>,
}

impl Site {
    /// Where the displaced instructions end.
    pub fn end(&self) -> u64 {
        self.steps
            .last()
            .map_or(self.at, |s| s.instruction.next_ip())
    }
}

/// All places of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sites {
    /// Its beginning.
    pub entry: Site,
    /// Its exits that are not within the entry; `Err` = why not all can be patched.
    pub exits: Result<Exits, String>,
}

/// The patches with which calls are timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exits {
    /// In the place of [`Sites::entry`]: exits within it are marked.
    pub entry: Site,
    /// The others.
    pub others: Vec<Site>,
}

/// Why a function cannot be patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// No function begins there by the call frame information.
    NoFunction,
    /// It is code that the compiler has taken out of a function.
    Part,
    /// Its code cannot be read or decoded.
    Unreadable,
    /// It is shorter than a jump, and no padding follows.
    Short,
    /// Execution may come to the bytes that would be replaced.
    Target,
    /// Where execution may come to is not known: a table of jumps is too long.
    LongTable,
    /// An instruction that cannot be moved.
    Immovable,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFunction => "no function begins there",
            Self::Part => "it is a part of another function, which is probed with that",
            Self::Unreadable => "its code cannot be decoded",
            Self::Short => "there is no room for a jump of 5 bytes",
            Self::Target => "a jump or return leads into the 5 bytes that would be replaced",
            Self::LongTable => "a table of jumps that leads into it is too long to be read",
            Self::Immovable => "an instruction that would be replaced cannot be moved",
        })
    }
}

/// Chooses the sites of the function that begins at `start`.
///
/// # Errors
/// Not even its entry can be patched.
pub fn choose(module: &Module, start: u64) -> Result<Sites, Obstacle> {
    let covering = module.functions.covering(start);
    let function = covering.filter(|f| f.range.start == start);
    let range = function.ok_or(Obstacle::NoFunction)?.range.clone();
    if module.targets.has_long_table(start) {
        return Err(Obstacle::LongTable);
    }
    let main = decode(module, &range)?;
    if is_part(module, &main) {
        return Err(Obstacle::Part);
    }
    let entry = entry(module, &main)?;
    let exits = exits(module, main, &entry);
    Ok(Sites { entry, exits })
}

fn decode(module: &Module, range: &Range<u64>) -> Result<Vec<Instruction>, Obstacle> {
    let code = module.image.range(range).ok_or(Obstacle::Unreadable)?;
    let all: Vec<_> = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE)
        .into_iter()
        .collect();
    match all.iter().any(Instruction::is_invalid) || all.is_empty() {
        true => Err(Obstacle::Unreadable),
        false => Ok(all),
    }
}

/// Whether an instruction ends the straight line.
fn ends_line(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
    )
}

/// Whether an instruction works elsewhere. Of calls only the last one of a patch does.
fn is_movable(instruction: &Instruction, is_last: bool) -> bool {
    match instruction.flow_control() {
        FlowControl::Next => true,
        FlowControl::ConditionalBranch => is_relative_branch(instruction),
        FlowControl::UnconditionalBranch => instruction.op0_kind() == OpKind::NearBranch64,
        FlowControl::Return | FlowControl::IndirectBranch => true,
        _ => is_last && is_call(instruction),
    }
}

/// Bytes of padding from an address on, as far as they are nobody's.
fn padding(module: &Module, from: u64) -> u64 {
    let limit = module.functions.next_start(from);
    let bytes = module.image.from(from).unwrap_or_default();
    let most = (limit - from).min(bytes.len() as u64).min(64) as usize;
    let mut end = from;
    for instruction in Decoder::with_ip(64, &bytes[..most], from, DecoderOptions::NONE) {
        let is_padding = matches!(
            instruction.code(),
            Code::Int3
                | Code::Nopd
                | Code::Nopw
                | Code::Nopq
                | Code::Nop_rm16
                | Code::Nop_rm32
                | Code::Nop_rm64
        );
        let is_target = module
            .targets
            .has_in(instruction.ip()..instruction.ip() + 1);
        if !is_padding || is_target {
            break;
        }
        end = instruction.next_ip();
    }
    end - from
}

/// The beginning of a function.
fn entry(module: &Module, code: &[Instruction]) -> Result<Site, Obstacle> {
    let start = code.first().ok_or(Obstacle::Unreadable)?.ip();
    let end = start + PATCH_BYTES as u64;
    if module.targets.has_in(start + 1..end) {
        return Err(Obstacle::Target);
    }
    let mut steps = Vec::new();
    for instruction in code {
        let is_last = instruction.next_ip() >= end;
        if !is_movable(instruction, is_last) {
            return Err(Obstacle::Immovable);
        }
        steps.push(Step {
            instruction: *instruction,
            is_exit: false,
        });
        if is_last {
            break;
        }
        if ends_line(instruction) {
            let room = instruction.next_ip() + padding(module, instruction.next_ip());
            if room < end {
                return Err(Obstacle::Short);
            }
            break;
        }
    }
    let site = Site {
        at: start,
        is_entry: true,
        steps,
    };
    let is_line_open = site
        .steps
        .last()
        .is_some_and(|s| !ends_line(&s.instruction));
    match is_line_open && site.end() < end {
        true => Err(Obstacle::Short),
        false => Ok(site),
    }
}

/// All exits of a function, with those of its parts elsewhere.
fn exits(module: &Module, main: Vec<Instruction>, entry: &Site) -> Result<Exits, String> {
    let start = entry.at;
    let parts = parts(module, main).map_err(|why| why.to_string())?;
    let is_own = |at: u64| parts.iter().any(|part| part.range.contains(&at));
    let mut exits = Exits {
        entry: entry.clone(),
        others: Vec::new(),
    };
    for part in &parts {
        if module.targets.is_unreadable(part.range.start) {
            return Err("its table of exception handlers cannot be read".into());
        }
        if module.targets.has_long_table(part.range.start) {
            return Err(Obstacle::LongTable.to_string());
        }
        for (index, instruction) in part.code.iter().enumerate() {
            let is_exit = match instruction.flow_control() {
                FlowControl::Return => true,
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    !is_own(instruction.near_branch_target())
                }
                FlowControl::IndirectBranch => {
                    is_tail_jump(module, &part.code[..=index], part.range.start)
                }
                _ => false,
            };
            if is_exit {
                add_exit(module, &mut exits, &part.code, index).map_err(|why| {
                    let at = instruction.ip() - part.range.start;
                    match part.range.start == start {
                        true => format!("its exit at +{at:#x}: {why}"),
                        false => format!("an exit of its part at {:#x}: {why}", part.range.start),
                    }
                })?;
            }
        }
    }
    Ok(exits)
}

struct Part {
    range: Range<u64>,
    code: Vec<Instruction>,
}

/// A function and what the compiler has taken out of it, as it is seldom executed: code that it
/// jumps to with its frame in place, or that jumps back into its middle.
fn parts(module: &Module, main: Vec<Instruction>) -> Result<Vec<Part>, Obstacle> {
    let range = |code: &[Instruction]| match (code.first(), code.last()) {
        (Some(first), Some(last)) => first.ip()..last.next_ip(),
        _ => 0..0,
    };
    let mut parts = vec![Part {
        range: range(&main),
        code: main,
    }];
    let mut next = 0;
    while next < parts.len() && parts.len() <= MAX_PARTS {
        let targets: Vec<u64> = branches(&parts[next].code).collect();
        next += 1;
        for target in targets {
            let is_known = |p: &Part| p.range.contains(&target);
            let Some(function) = module.functions.covering(target) else {
                continue;
            };
            if parts.iter().any(is_known) {
                continue;
            }
            let has_frame = module.functions.is_at_return_address(target) == Some(false);
            let code = decode(module, &function.range)?;
            let middle = parts[0].range.start + 1..parts[0].range.end;
            if has_frame || branches(&code).any(|back| middle.contains(&back)) {
                parts.push(Part {
                    range: function.range.clone(),
                    code,
                });
            }
        }
    }
    Ok(parts)
}

/// Whether this is a part of a function: code that begins with a frame in place, or that jumps into
/// the middle of a function which jumps to its beginning.
fn is_part(module: &Module, code: &[Instruction]) -> bool {
    let (Some(first), Some(last)) = (code.first(), code.last()) else {
        return false;
    };
    if module.functions.is_at_return_address(first.ip()) == Some(false) {
        return true;
    }
    let own = first.ip()..last.next_ip();
    branches(code).any(|target| {
        let main = module.functions.covering(target);
        let main = main.filter(|f| f.range.start != target && f.range.start != own.start);
        let main = main.and_then(|f| decode(module, &f.range).ok());
        main.is_some_and(|main| branches(&main).any(|target| target == own.start))
    })
}

/// Targets of the jumps of a function.
fn branches(code: &[Instruction]) -> impl Iterator<Item = u64> + '_ {
    code.iter().filter_map(|instruction| {
        let is_jump = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        is_jump.then(|| instruction.near_branch_target())
    })
}

/// Whether the indirect jump at the end of `code` leaves the function, and does not choose one of
/// its labels. A wrong answer costs the time of one call, and does no harm.
fn is_tail_jump(module: &Module, code: &[Instruction], function: u64) -> bool {
    let Some((jump, before)) = code.split_last() else {
        return false;
    };
    if module.functions.is_at_return_address(jump.ip()) == Some(false) {
        return false;
    }
    let is_scaled = |i: &Instruction| {
        i.op_kinds().any(|kind| kind == OpKind::Memory)
            && i.memory_index() != Register::None
            && i.memory_index_scale() == 8
    };
    let has_table = module.targets.has_table(function);
    if jump.op0_kind() == OpKind::Memory {
        return !(is_scaled(jump) && has_table);
    }
    let register = jump.op0_register().full_register();
    for instruction in before.iter().rev().take(BEFORE_JUMP) {
        let is_set = instruction.op_count() > 0
            && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().full_register() == register;
        if is_set {
            let is_sum = instruction.mnemonic() == iced_x86::Mnemonic::Add;
            return !(has_table && (is_sum || is_scaled(instruction)));
        }
    }
    !has_table
}

/// Adds the exit at `index` to the patches: to the one before, if there is no room for another.
fn add_exit(
    module: &Module,
    exits: &mut Exits,
    code: &[Instruction],
    index: usize,
) -> Result<(), Obstacle> {
    let exit = &code[index];
    for site in sites(exits) {
        let around = site.at + 1..exit.ip() + 1;
        if let Some(step) = step_at(site, exit.ip()) {
            step.is_exit = true;
            let is_bypassed = module.targets.has_in(around);
            return if is_bypassed {
                Err(Obstacle::Target)
            } else {
                Ok(())
            };
        }
    }
    let mut end = exit.next_ip();
    if ends_line(exit) {
        end += padding(module, end);
    }
    let mut first = index;
    while end - code[first].ip() < PATCH_BYTES as u64 {
        first = first.checked_sub(1).ok_or(Obstacle::Short)?;
        if ends_line(&code[first]) || !is_movable(&code[first], false) {
            return extend(module, exits, code, index).ok_or(Obstacle::Short);
        }
    }
    let at = code[first].ip();
    let is_taken = sites(exits).any(|site| site.at < end && at < site.end());
    if is_taken || module.targets.has_in(at + 1..exit.ip() + 1) {
        return extend(module, exits, code, index).ok_or(Obstacle::Target);
    }
    exits.others.push(Site {
        at,
        is_entry: false,
        steps: steps(&code[first..=index]),
    });
    Ok(())
}

fn steps(code: &[Instruction]) -> Vec<Step> {
    let last = code.len() - 1;
    let code = code.iter().enumerate();
    code.map(|(i, instruction)| Step {
        instruction: *instruction,
        is_exit: i == last,
    })
    .collect()
}

fn sites(exits: &mut Exits) -> impl Iterator<Item = &mut Site> {
    std::iter::once(&mut exits.entry).chain(&mut exits.others)
}

fn step_at(site: &mut Site, at: u64) -> Option<&mut Step> {
    site.steps.iter_mut().find(|s| s.instruction.ip() == at)
}

/// Lets the patch before take the instructions up to this exit as well.
fn extend(module: &Module, exits: &mut Exits, code: &[Instruction], index: usize) -> Option<()> {
    let exit = &code[index];
    let mut before: Vec<_> = sites(exits).filter(|s| s.at < exit.ip()).collect();
    before.sort_by_key(|s| s.at);
    let site = before.pop()?;
    let first = code.iter().position(|i| i.ip() == site.end())?;
    let between = code.get(first..=index)?;
    let last = site.steps.last()?.instruction;
    let is_line = !ends_line(&last) && !is_call(&last);
    let is_movable = between[..between.len() - 1]
        .iter()
        .all(|i| is_movable(i, false) && !ends_line(i));
    if !is_line || !is_movable || module.targets.has_in(site.at + 1..exit.ip() + 1) {
        return None;
    }
    site.steps.extend(steps(between));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Image, Segment};

    const AT: u64 = 0x10_0000;
    const DATA: u64 = 0x20_0000;

    /// A module with one function, what follows it, and data.
    fn module(code: &[u8], behind: &[u8], data: &[u8]) -> Module {
        let mut bytes = code.to_vec();
        bytes.extend(behind);
        let segment = |at, bytes: &[u8], is_code| Segment {
            at,
            bytes: bytes.to_vec(),
            is_code,
        };
        let image = Image::new(vec![segment(AT, &bytes, true), segment(DATA, data, false)]);
        let function = AT..AT + code.len() as u64;
        let next = function.end + behind.len() as u64;
        Module::for_tests(image, &[function, next..next + 1])
    }

    fn chosen(code: &[u8], behind: &[u8]) -> Result<Sites, Obstacle> {
        choose(&module(code, behind, &[]), AT)
    }

    // push rbx; mov rbx, rdi; mov eax, [rdi]
    const HEAD: [u8; 6] = [0x53, 0x48, 0x89, 0xfb, 0x8b, 0x07];

    #[test]
    fn return_takes_the_instructions_before_it() {
        let code = [&HEAD[..], &[0x48, 0x83, 0xc4, 0x08, 0x5b, 0xc3]].concat();
        let exits = chosen(&code, &[]).unwrap().exits.unwrap();
        assert_eq!(exits.others.len(), 1);
        assert_eq!(
            (exits.others[0].at, exits.others[0].end()),
            (AT + 6, AT + 12)
        );
        let steps = &exits.others[0].steps;
        assert_eq!(
            steps.iter().map(|s| s.is_exit).collect::<Vec<_>>(),
            [false, false, true]
        );
    }

    #[test]
    fn return_that_is_jumped_to_needs_padding() {
        // ...; je to the return; nop x 6; ret
        let mut code = [&HEAD[..], &[0x74, 0x06], &[0x90; 6], &[0xc3]].concat();
        let why = chosen(&code, &[]).unwrap().exits.unwrap_err();
        assert!(why.contains("+0xe"), "{why}");
        let sites = chosen(&code, &[0xcc; 4]).unwrap();
        assert_eq!(sites.exits.unwrap().others[0].at, AT + 14);
        // Three bytes are not enough, and code is no padding.
        assert!(chosen(&code, &[0xcc; 3]).unwrap().exits.is_err());
        assert!(chosen(&code, &[0x31, 0xc0, 0x31, 0xc0])
            .unwrap()
            .exits
            .is_err());
        // Without the jump it needs none.
        code[6..8].copy_from_slice(&[0x90, 0x90]);
        assert!(chosen(&code, &[]).unwrap().exits.is_ok());
    }

    #[test]
    fn short_function_is_one_patch() {
        // mov eax, edi; ret; int3...
        let sites = chosen(&[0x89, 0xf8, 0xc3], &[0xcc; 2]).unwrap();
        let exits = sites.exits.unwrap();
        assert!(exits.others.is_empty() && exits.entry.steps[1].is_exit);
        assert!(!sites.entry.steps[1].is_exit, "a counter has no exit");
        assert_eq!(chosen(&[0x89, 0xf8, 0xc3], &[0xcc]), Err(Obstacle::Short));
    }

    #[test]
    fn return_right_behind_the_entry_joins_its_patch() {
        // mov rbx, rdi; mov eax, [rdi]; pop rbx; ret
        let code = [0x48, 0x89, 0xfb, 0x8b, 0x07, 0x5b, 0xc3];
        let exits = chosen(&code, &[]).unwrap().exits.unwrap();
        assert!(exits.others.is_empty());
        assert_eq!((exits.entry.end(), exits.entry.steps.len()), (AT + 7, 4));
    }

    #[test]
    fn jumps_out_of_the_function_are_exits() {
        // ...; jmp elsewhere
        let code = [&HEAD[..], &[0xe9, 0, 1, 0, 0]].concat();
        let exits = chosen(&code, &[]).unwrap().exits.unwrap();
        assert_eq!(
            (exits.others[0].at, exits.others[0].steps.len()),
            (AT + 6, 1)
        );
        // ...; jmp rax with padding
        let code = [&HEAD[..], &[0xff, 0xe0]].concat();
        let exits = chosen(&code, &[0xcc; 8]).unwrap().exits.unwrap();
        assert!(exits.others[0].steps.last().unwrap().is_exit);
    }

    /// A function with a table of jumps to its bytes 16 and 19, and that table, which ends with 0.
    fn with_table(table: u64) -> (Vec<u8>, Vec<u8>) {
        // lea rdx, [rip+table]; movslq rax, [rdx+rax*4]; add rax, rdx; jmp rax; ret; nop; ret
        let mut code = vec![0x48, 0x8d, 0x15, 0, 0, 0, 0, 0x48, 0x63, 0x04, 0x82];
        code.extend([0x48, 0x01, 0xd0, 0xff, 0xe0, 0xc3, 0x90, 0x90, 0xc3]);
        let distance = (table - (AT + 7)) as u32;
        code[3..7].copy_from_slice(&distance.to_le_bytes());
        let entry = |at: u64| (AT + at).wrapping_sub(table) as u32;
        let table = [entry(16), entry(19), 0].map(u32::to_le_bytes).concat();
        (code, table)
    }

    #[test]
    fn tables_next_to_the_code_are_read() {
        let end = AT + 20 + 8;
        let (code, table) = with_table(end);
        let module = module(&code, &[&[0xcc; 8][..], &table].concat(), &[]);
        assert!(module.targets.has_table(AT));
        assert!(module.targets.has_in(AT + 19..AT + 20));
    }

    #[test]
    fn function_with_an_endless_table_is_left_alone() {
        let (code, table) = with_table(DATA);
        let table = table[..8].repeat(1 << 16);
        let module = module(&code, &[0xcc; 8], &table);
        assert_eq!(choose(&module, AT), Err(Obstacle::LongTable));
    }

    #[test]
    fn labels_of_a_table_are_targets_and_its_jump_is_no_exit() {
        let (code, table) = with_table(DATA);
        let module = module(&code, &[0xcc; 8], &table);
        assert!(module.targets.has_table(AT));
        assert!(module.targets.has_in(AT + 19..AT + 20));
        let why = choose(&module, AT).unwrap().exits.unwrap_err();
        assert!(
            why.contains("+0x10"),
            "no room between the two labels: {why}"
        );
    }

    #[test]
    fn returns_into_the_entry_forbid_it() {
        // call +0; ...: what is behind the call at +2 would be overwritten.
        let code = [0xff, 0xd0, 0x90, 0x90, 0x90, 0x90, 0xc3];
        assert_eq!(chosen(&code, &[]), Err(Obstacle::Target));
        assert_eq!(
            choose(&module(&code, &[], &[]), AT + 1),
            Err(Obstacle::NoFunction)
        );
    }
}
