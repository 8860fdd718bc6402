//! What critical sections touched: every row of the room `diagnose`.

use convoy_diagnose as diagnose;
use convoy_diagnose::{called_name, Analysis};
use convoy_model::finding::{Cause, Evidence};
use convoy_model::{Model, SectionEnd};
use serde::Serialize;

use super::frame::{frame, FrameOut};
use crate::names;
use crate::text::sections::{end_name, region_name, sharing_name};

#[derive(Serialize)]
pub struct SectionsOut<'a> {
    all_places: bool,
    every_section: bool,
    first_count: u32,
    budget_ratio: f64,
    traced_count: u64,
    run_count: u64,
    places: Vec<PlaceOut<'a>>,
    inside: Vec<InsideOut>,
    lost: Vec<LostSectionsOut<'a>>,
}

#[derive(Serialize)]
struct LostSectionsOut<'a> {
    reason: &'a str,
    count: u64,
}

#[derive(Serialize)]
struct PlaceOut<'a> {
    objects: Vec<u32>,
    object_count: u64,
    stack: u32,
    op: Option<&'static str>,
    threads_count: u32,
    run_count: u64,
    traced_count: u64,
    whole_count: u64,
    sampled_count: u64,
    waited_count: u64,
    cut: Vec<CutOut>,
    instructions: SpreadOut,
    accesses: SpreadOut,
    reads: SpreadOut,
    writes: SpreadOut,
    shared_accesses: SpreadOut,
    words: SpreadOut,
    accessed_bytes: SpreadOut,
    traced_ns: SpreadOut,
    hold_ns: Option<f64>,
    allocator_ratio: f64,
    movable_ratio: f64,
    distinct_words_count: u64,
    distinct_by_sharing: BySharingOut,
    regions: Vec<RegionOut>,
    data: Vec<DataOut<'a>>,
    lines: Vec<LineOut<'a>>,
    calls: Vec<SectionCallOut<'a>>,
    read_only: ShareOut,
    one_word: ShareOut,
    nothing_shared: ShareOut,
    blocking: ShareOut,
    conflicts: Option<ShareOut>,
    partition: Option<PartitionOut<'a>>,
    verdict: SectionVerdictOut<'a>,
}

#[derive(Serialize)]
struct CutOut {
    why: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct SpreadOut {
    mean: f64,
    median: f64,
    p95: f64,
    max: f64,
}

#[derive(Serialize)]
struct ShareOut {
    share_ratio: f64,
    low_ratio: f64,
    high_ratio: f64,
}

#[derive(Serialize)]
struct BySharingOut {
    local_ratio: f64,
    read_only_ratio: f64,
    rare_ratio: f64,
    overwritten_ratio: f64,
    shared_ratio: f64,
}

#[derive(Serialize)]
struct RegionOut {
    region: &'static str,
    words: f64,
    reads: f64,
    writes: f64,
    shared_ratio: f64,
}

#[derive(Serialize)]
struct DataOut<'a> {
    name: &'a str,
    region: &'static str,
    words_count: u64,
    sections_ratio: f64,
    accesses: f64,
    sharing: &'static str,
}

#[derive(Serialize)]
struct LineOut<'a> {
    frame: FrameOut<'a>,
    executions: f64,
    instructions: f64,
    share_ratio: f64,
    accesses: f64,
    by_sharing: BySharingOut,
    calls: bool,
    movable: bool,
}

#[derive(Serialize)]
struct SectionCallOut<'a> {
    what: String,
    frame: Option<FrameOut<'a>>,
    per_section: f64,
    sections_ratio: f64,
    waits_count: u64,
    wait_ns: u64,
    blocking: bool,
}

#[derive(Serialize)]
struct PartitionOut<'a> {
    parts_count: usize,
    by: &'static str,
    largest: Vec<PartOut<'a>>,
    common: Vec<DataOut<'a>>,
}

#[derive(Serialize)]
struct PartOut<'a> {
    name: &'a str,
    words_count: usize,
    object_bytes: u64,
    sections_ratio: f64,
}

#[derive(Serialize)]
struct SectionVerdictOut<'a> {
    decided: bool,
    causes: &'a [Cause],
    undecided: &'a str,
    evidence: &'a [Evidence],
    lines: Vec<FrameOut<'a>>,
    waits_saved_ratio: Option<f64>,
}

#[derive(Serialize)]
struct InsideOut {
    inner: u32,
    outer: u32,
    outer_stack: u32,
    acquisitions: f64,
    share_ratio: f64,
    always: bool,
}

/// `None` if nobody looked into sections.
pub fn sections<'a>(model: &'a Model, analysis: Option<&'a Analysis>) -> Option<SectionsOut<'a>> {
    let a = analysis?;
    let lost = |(reason, count): &'a (String, u64)| LostSectionsOut {
        reason,
        count: *count,
    };
    Some(SectionsOut {
        all_places: a.sampling.all_sites,
        every_section: a.sampling.every,
        first_count: a.sampling.first,
        budget_ratio: f64::from(a.sampling.budget_ppm) / 1e6,
        traced_count: a.traced,
        run_count: a.run,
        places: a.sites.iter().map(|row| place(model, row)).collect(),
        inside: a.inside.iter().map(inside).collect(),
        lost: a.drops.iter().map(lost).collect(),
    })
}

fn place<'a>(model: &Model, row: &'a diagnose::SiteRow) -> PlaceOut<'a> {
    let cut = SectionEnd::ALL.iter().zip(row.ends);
    let cut = cut.filter(|(end, n)| !end.is_whole() && *n > 0);
    PlaceOut {
        objects: row.locks.iter().map(|id| id.0).collect(),
        object_count: row.lock_count,
        stack: row.site.0,
        op: row.op.map(names::op),
        threads_count: row.threads,
        run_count: row.run,
        traced_count: row.traced,
        whole_count: row.whole,
        sampled_count: row.sampled,
        waited_count: row.waited,
        cut: cut
            .map(|(end, count)| CutOut {
                why: end_name(*end),
                count,
            })
            .collect(),
        instructions: spread(&row.instructions),
        accesses: spread(&row.accesses),
        reads: spread(&row.reads),
        writes: spread(&row.writes),
        shared_accesses: spread(&row.shared),
        words: spread(&row.words),
        accessed_bytes: spread(&row.bytes),
        traced_ns: spread(&row.traced_ns),
        hold_ns: row.hold_ns,
        allocator_ratio: row.allocator,
        movable_ratio: row.movable,
        distinct_words_count: row.distinct_words,
        distinct_by_sharing: by_sharing(&row.distinct_by_sharing),
        regions: row.regions.iter().map(region).collect(),
        data: row.data.iter().map(data).collect(),
        lines: row.lines.iter().map(line).collect(),
        calls: row
            .calls
            .iter()
            .map(|call| section_call(model, call))
            .collect(),
        read_only: share(&row.read_only),
        one_word: share(&row.one_word),
        nothing_shared: share(&row.nothing_shared),
        blocking: share(&row.blocking),
        conflicts: row.conflicts.as_ref().map(share),
        partition: row.partition.as_ref().map(partition),
        verdict: SectionVerdictOut {
            decided: row.verdict.decided().is_some(),
            causes: &row.verdict.causes,
            undecided: &row.verdict.undecided,
            evidence: &row.verdict.evidence,
            lines: row.verdict.lines.iter().map(frame).collect(),
            waits_saved_ratio: row.verdict.waits_saved,
        },
    }
}

fn spread(of: &diagnose::Spread) -> SpreadOut {
    SpreadOut {
        mean: of.mean,
        median: of.median,
        p95: of.p95,
        max: of.max,
    }
}

fn share(of: &diagnose::Share) -> ShareOut {
    ShareOut {
        share_ratio: of.share,
        low_ratio: of.low,
        high_ratio: of.high,
    }
}

fn by_sharing([local, read_only, rare, overwritten, shared]: &[f64; 5]) -> BySharingOut {
    BySharingOut {
        local_ratio: *local,
        read_only_ratio: *read_only,
        rare_ratio: *rare,
        overwritten_ratio: *overwritten,
        shared_ratio: *shared,
    }
}

fn region(of: &diagnose::RegionRow) -> RegionOut {
    RegionOut {
        region: region_name(of.region),
        words: of.words,
        reads: of.reads,
        writes: of.writes,
        shared_ratio: of.shared,
    }
}

fn data(of: &diagnose::DataRow) -> DataOut<'_> {
    DataOut {
        name: &of.name,
        region: region_name(of.region),
        words_count: of.words,
        sections_ratio: of.sections,
        accesses: of.accesses,
        sharing: sharing_name(of.sharing),
    }
}

fn line(of: &diagnose::LineRow) -> LineOut<'_> {
    LineOut {
        frame: frame(&of.frame),
        executions: of.executions,
        instructions: of.instructions,
        share_ratio: of.share,
        accesses: of.accesses,
        by_sharing: by_sharing(&of.by_sharing),
        calls: of.calls,
        movable: of.movable,
    }
}

fn section_call<'a>(model: &Model, of: &'a diagnose::CallRow) -> SectionCallOut<'a> {
    SectionCallOut {
        what: called_name(model, of.what),
        frame: of.frame.as_ref().map(frame),
        per_section: of.per_section,
        sections_ratio: of.sections,
        waits_count: of.waits,
        wait_ns: of.wait_ns,
        blocking: of.blocking,
    }
}

fn partition(of: &diagnose::Partition) -> PartitionOut<'_> {
    PartitionOut {
        parts_count: of.parts,
        by: match of.by {
            diagnose::PartitionBy::Element => "element",
            diagnose::PartitionBy::Object => "object",
            diagnose::PartitionBy::Place => "place",
            diagnose::PartitionBy::Field => "field",
        },
        largest: of
            .largest
            .iter()
            .map(|part| PartOut {
                name: &part.name,
                words_count: part.words,
                object_bytes: part.bytes,
                sections_ratio: part.sections,
            })
            .collect(),
        common: of.common.iter().map(data).collect(),
    }
}

fn inside(of: &diagnose::InsideRow) -> InsideOut {
    InsideOut {
        inner: of.inner.0,
        outer: of.outer.0,
        outer_stack: of.outer_site.0,
        acquisitions: of.acquisitions,
        share_ratio: of.share,
        always: of.always,
    }
}
