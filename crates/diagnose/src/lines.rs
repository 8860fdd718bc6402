//! The lines of a section's own code, each with everything that it calls, and which of them could be moved out.

use std::collections::BTreeMap;

use convoy_model::{Called, Model, SectionCode, Sections, Sharing, SiteFrame};

use convoy_profile::Op;

use crate::groups::Group;
use crate::rows::LineRow;
use crate::shares::SharingView;

/// Lines with less of the instructions are not worth moving.
const WORTH: f64 = 0.02;
/// What runs as often as a line with shared data, in so few instructions, is the loop around it.
const LOOP_CONTROL: f64 = 8.0;
/// Executions of a line, as a share, that may touch something that nothing is known of: library functions run over words
/// that few of the traced sections come by.
const FEW: f64 = 0.05;
/// Share of a line's accesses that may be of such words where sections allocate: what is allocated anew lies elsewhere each time.
const FEW_ACCESSES: f64 = 0.01;

#[derive(Debug, Clone, Default)]
struct Sum {
    executions: u64,
    instructions: u64,
    accesses: f64,
    by_sharing: [f64; 5],
    /// Accesses of which no word is known.
    unseen: u64,
}

/// The lines, in order of file and line. `whole` and cut sections alike.
pub(crate) fn lines(model: &Model, eyes: &SharingView<'_>, group: &Group) -> Vec<LineRow> {
    let sections = eyes.sections;
    let home = home_functions(model, group);
    let traced: u64 = group.rows(sections).map(|site| site.traced()).sum();
    let mut sums: BTreeMap<Key<'_>, (SiteFrame, Sum)> = BTreeMap::new();
    for row in sections
        .code
        .iter()
        .filter(|row| group.sites.contains(&row.site))
    {
        let Some(frame) = own_frame(sections, row.from.unwrap_or(row.place), &home) else {
            continue;
        };
        let (_, sum) = sums
            .entry(key(frame))
            .or_insert_with(|| (frame.clone(), Sum::default()));
        add(sum, row, eyes);
    }
    let calls = called(sections, group, &home, traced);
    let all: u64 = sums.values().map(|(_, sum)| sum.instructions).sum();
    let per_section = |n: f64| n / traced.max(1) as f64;
    let mut lines: Vec<(LineRow, bool)> = sums
        .iter()
        .map(|(key, (frame, sum))| {
            let row = LineRow {
                frame: frame.clone(),
                executions: per_section(sum.executions as f64),
                instructions: per_section(sum.instructions as f64),
                share: sum.instructions as f64 / all.max(1) as f64,
                accesses: per_section(sum.accesses),
                by_sharing: shares(&sum.by_sharing),
                calls: calls.contains(key),
                movable: false,
            };
            (row, sum.unseen as f64 > FEW * sum.executions as f64)
        })
        .collect();
    let shared_at: Vec<(String, f64)> = lines
        .iter()
        .filter(|(line, unseen)| *unseen || touches_shared(line, eyes.allocates))
        .map(|(line, _)| (line.frame.function.clone(), line.executions))
        .collect();
    for (line, unseen) in &mut lines {
        let each = line.instructions / line.executions.max(1e-9);
        let loops = |(function, executions): &(String, f64)| {
            *function == line.frame.function
                && line.executions > 1.5
                && line.executions < 3.0 * executions
        };
        let control = each <= LOOP_CONTROL && shared_at.iter().any(loops);
        line.movable = !*unseen
            && !touches_shared(line, eyes.allocates)
            && !line.calls
            && !control
            && line.share >= WORTH;
    }
    lines.into_iter().map(|(line, _)| line).collect()
}

type Key<'a> = (&'a str, &'a str, u32, u64);

fn key(frame: &SiteFrame) -> Key<'_> {
    match frame.line {
        0 => (&frame.module, &frame.function, 0, frame.offset),
        line => (&frame.file, &frame.function, line, 0),
    }
}

fn touches_shared(line: &LineRow, allocates: bool) -> bool {
    let of = |sharing: Sharing| line.by_sharing[sharing as usize];
    let rare = of(Sharing::Rare) * line.accesses;
    let anew = allocates && of(Sharing::Rare) <= FEW_ACCESSES;
    let known = of(Sharing::Overwritten) > 0.0 || of(Sharing::Shared) > 0.0;
    known || (rare > FEW * line.executions && !anew)
}

fn add(sum: &mut Sum, row: &SectionCode, eyes: &SharingView<'_>) {
    sum.instructions = sum.instructions.saturating_add(row.instructions);
    if row.from.is_none() {
        sum.executions = sum.executions.max(row.executions);
    }
    if row.accesses == 0 {
        return;
    }
    let known: Vec<Sharing> = row
        .words
        .iter()
        .filter_map(|&ix| eyes.word(ix))
        .map(|word| eyes.sharing(word).unwrap_or(Sharing::Local))
        .collect();
    // An indivisible access needs no lock: reference counts, flags of what was begun once.
    if row.atomic {
        sum.accesses += row.accesses as f64;
        sum.by_sharing[Sharing::Local as usize] += row.accesses as f64;
        return;
    }
    if known.is_empty() {
        sum.unseen = sum.unseen.saturating_add(row.accesses);
    }
    sum.accesses += row.accesses as f64;
    for sharing in &known {
        sum.by_sharing[*sharing as usize] += row.accesses as f64 / known.len() as f64;
    }
}

fn shares(sums: &[f64; 5]) -> [f64; 5] {
    let all: f64 = sums.iter().sum();
    sums.map(|sum| if all > 0.0 { sum / all } else { 0.0 })
}

/// Functions that the call stacks of the acquires go through: the section's own code is in one of them.
fn home_functions<'a>(model: &'a Model, group: &Group) -> Vec<&'a str> {
    let Some(sections) = &model.sections else {
        return Vec::new();
    };
    let mut names: Vec<&str> = group
        .rows(sections)
        .filter_map(|row| model.sites.get(row.site.0 as usize))
        .flat_map(|site| site.frames.iter().skip(site.shown).take(4))
        .map(|frame| frame.function.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Of a code address, the function that the section is in: what is inlined there is its callee.
fn own_frame<'a>(sections: &'a Sections, place: u32, home: &[&str]) -> Option<&'a SiteFrame> {
    let frames = sections.places.get(place as usize)?;
    let at_home = |frame: &&SiteFrame| home.contains(&frame.function.as_str());
    frames.iter().find(at_home).or(frames.last())
}

/// Lines that call what the tables of calls know. Not what has been done once already, nor what few sections do: the kernel
/// is asked for memory now and then.
fn called<'a>(sections: &'a Sections, group: &Group, home: &[&str], traced: u64) -> Vec<Key<'a>> {
    let calls = sections.calls.iter();
    calls
        .filter(|call| group.sites.contains(&call.site))
        .filter(|call| !matches!(call.what, Called::Op(Op::Once, _)) || call.waits > 0)
        .filter(|call| call.sections as f64 > FEW * traced as f64)
        .filter_map(|call| Some(key(own_frame(sections, call.place?, home)?)))
        .collect()
}

/// The line of a call.
pub(crate) fn line_of<'a>(
    model: &Model,
    sections: &'a Sections,
    group: &Group,
    place: Option<u32>,
) -> Option<&'a SiteFrame> {
    own_frame(sections, place?, &home_functions(model, group))
}
