//! Rows of an analysis that come from the read and write sets: places, pairs, races, lines.

use std::collections::BTreeMap;

use convoy_trace::ObjectIx;

use crate::analysis::{Access, LockRow, Place, Race, SourceLine, Ulcp, UlcpCounts as Counts};
use crate::cost::{CodeRegion, RegionPair};
use crate::races::RaceSide;
use crate::sets::{CodePlace, SectionSets, SetClass};
use crate::study::Study;
use crate::ulcp::{Class, PairCounts};
use crate::unnecessary::Unnecessary;

/// The stable id of a class.
pub(crate) fn class_id(class: Class) -> &'static str {
    match class {
        Class::NullLock => "null-lock",
        Class::ReadRead => "read-read",
        Class::DisjointWrite => "disjoint-write",
        Class::Benign => "benign",
        Class::TrueContention | Class::Undecided => "true-contention",
        Class::Unknown => "unknown",
    }
}

fn place_of(code: &CodePlace) -> Place {
    Place {
        function: code.name(),
        file: code.file.clone(),
        line: code.line,
    }
}

/// Where the regions of a pair begin and end.
pub(crate) fn places(found: &Unnecessary, pair: &RegionPair) -> Vec<Place> {
    let mut places = Vec::new();
    for region in [pair.regions.0, pair.regions.1] {
        if let Some(region) = found.regions.regions.get(region) {
            places.extend([place_of(&region.begin), place_of(&region.end)]);
        }
    }
    places.dedup();
    if places.len() == 4 && places[..2] == places[2..] {
        places.truncate(2);
    }
    places
}

/// Races, one row for each variable and pair of places.
pub(crate) fn race_rows(study: &Study<'_>, found: &Unnecessary, sets: &SectionSets) -> Vec<Race> {
    let access = |side: &RaceSide| Access {
        place: match sets.places.get(side.place as usize) {
            Some(code) => place_of(code),
            None => {
                let site = study.names.sites.get(side.site as usize);
                site.cloned().unwrap_or_default()
            }
        },
        is_write: side.writes,
    };
    let mut rows: Vec<Race> = Vec::new();
    for race in &found.races.races {
        let word = sets.words.get(race.word as usize);
        let name = word.and_then(|word| word.name.as_deref());
        let variable = name.and_then(|name| name.split('+').next());
        let row = Race {
            data: variable.unwrap_or("allocated memory").to_owned(),
            accesses: [access(&race.first), access(&race.second)],
        };
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

/// Lines of a region by what they do: those between its ends, and beyond them those that ran in its
/// sections. Texts are for whoever has the file.
pub(crate) fn source_lines(sets: &SectionSets, region: &CodeRegion) -> Vec<SourceLine> {
    let of_it = |class: &&SetClass| {
        (&class.site.module, class.site.offset) == (&region.begin.module, region.begin.offset)
    };
    let classes = sets.classes.iter().filter(of_it);
    let mut lines: BTreeMap<u32, (f64, bool)> = BTreeMap::new();
    let file = &region.begin.file;
    let mut all = 0.0;
    for line in classes.flat_map(|class| &class.lines) {
        all += line.instructions as f64;
        if line.line > 0 && line.file == *file {
            let of_line = lines.entry(line.line).or_default();
            of_line.0 += line.instructions as f64;
            of_line.1 |= line.shared;
        }
    }
    if file.is_empty() || lines.is_empty() {
        return Vec::new();
    }
    for end in [&region.begin, &region.end] {
        if end.file == *file && end.line > 0 {
            lines.entry(end.line).or_default();
        }
    }
    let lines = lines
        .into_iter()
        .map(|(line, (instructions, shared))| SourceLine {
            file: file.clone(),
            line,
            text: String::new(),
            share: instructions / f64::max(all, 1.0),
            shared,
        });
    lines.collect()
}

/// Pairs by class, of all locks and of each.
pub(crate) fn count_pairs(found: &Unnecessary, locks: &mut [(ObjectIx, LockRow)], ulcp: &mut Ulcp) {
    let counts = |acquisitions: u64, pairs: &PairCounts| Counts {
        acquisitions,
        null_lock: pairs.null_lock,
        read_read: pairs.read_read,
        disjoint_write: pairs.disjoint_write,
        benign: pairs.benign,
        true_contention: pairs.true_contention,
        unknown: pairs.unknown,
    };
    let total = found.counts.total();
    ulcp.counts = counts(total.acquisitions, &total.all);
    ulcp.unobserved_share = 1.0 - found.races.observed_share();
    let coverage = found.assignment.coverage;
    let known = coverage.observed + coverage.same_thread + coverage.same_lock + coverage.same_site;
    ulcp.inferred_share =
        (known - coverage.observed) as f64 / (known + coverage.none).max(1) as f64;
    for (object, row) in locks {
        let of_it = found.counts.locks.iter().find(|of| of.lock == *object);
        row.ulcp = of_it.map(|of| counts(of.acquisitions, &of.all));
    }
}
