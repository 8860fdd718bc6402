//! Where a function was inlined: for those of which no copy of their own is left.

use std::collections::{BTreeMap, BTreeSet};

use convoy_profile::Module;
use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, EndianSlice, LittleEndian, Unit,
};

use crate::demangle::{clean, demangle};
use crate::dwarf::load;
use crate::elf::Store;
use crate::locate;
use crate::Options;

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'d, 'a> = DebuggingInformationEntry<'d, 'd, Reader<'a>, usize>;

/// Functions that have a copy of `name` inside, with how many; most first. `name` is the last part
/// of a path (`run`, not `zip::run`). Empty if it was inlined and no place is recorded; `None` if
/// debug information says nothing of it.
pub fn inlined_into(
    module: &Module,
    options: &Options,
    name: &str,
) -> Option<Vec<(String, usize)>> {
    let store = Store::default();
    let files = locate::files(&store, module, options);
    let own = files.own.as_ref().ok();
    let found = files.debug.as_ref().or(own.filter(|f| f.image.has_dwarf()));
    let found = found?;
    if found.image.section_size(".debug_info") > options.max_debug_bytes {
        return None;
    }
    let dwarf = gimli::Dwarf::load(|id| load(&found.image, id.name())).ok()?;
    let search = Search {
        units: units(&dwarf),
        dwarf: &dwarf,
    };
    let origins = search.named(name);
    if origins.is_empty() {
        return None;
    }
    let mut callers: Vec<(String, usize)> = search.callers(&origins).into_iter().collect();
    callers.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Some(callers)
}

fn units<'a>(dwarf: &gimli::Dwarf<Reader<'a>>) -> Vec<Unit<Reader<'a>>> {
    let mut headers = dwarf.units();
    let mut units = Vec::new();
    while let Ok(Some(header)) = headers.next() {
        units.extend(dwarf.unit(header).ok());
    }
    units
}

/// All units of a file.
struct Search<'d, 'a> {
    dwarf: &'d gimli::Dwarf<Reader<'a>>,
    units: Vec<Unit<Reader<'a>>>,
}

/// References from one entry to another that are followed.
const MOST_STEPS: usize = 4;

impl<'a> Search<'_, 'a> {
    /// Functions of that name that were inlined.
    fn named(&self, name: &str) -> BTreeSet<DebugInfoOffset> {
        let mut found = BTreeSet::new();
        for unit in &self.units {
            let mut entries = unit.entries();
            while let Ok(Some((_, entry))) = entries.next_dfs() {
                if entry.tag() == gimli::DW_TAG_subprogram
                    && is_inlined(entry)
                    && self.attribute_name(unit, entry).as_deref() == Some(name)
                {
                    found.extend(entry.offset().to_debug_info_offset(&unit.header));
                }
            }
        }
        found
    }

    /// Functions that one of these was inlined into.
    fn callers(&self, origins: &BTreeSet<DebugInfoOffset>) -> BTreeMap<String, usize> {
        let mut callers = BTreeMap::new();
        for unit in &self.units {
            // The functions around the entry, each with its depth.
            let mut around: Vec<(isize, String)> = Vec::new();
            let mut depth = 0;
            let mut entries = unit.entries();
            while let Ok(Some((delta, entry))) = entries.next_dfs() {
                depth += delta;
                around.retain(|(at, _)| *at < depth);
                match entry.tag() {
                    gimli::DW_TAG_subprogram => {
                        let name = self.name(unit, entry, MOST_STEPS);
                        around.push((depth, name.unwrap_or_default()));
                    }
                    gimli::DW_TAG_inlined_subroutine => {
                        let origin = reference(unit, entry, gimli::DW_AT_abstract_origin);
                        if let (Some(origin), Some((_, name))) = (origin, around.last()) {
                            if self.stands_for(origin, origins) {
                                *callers.entry(name.clone()).or_default() += 1;
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        callers.remove("");
        callers
    }

    /// Whether an entry is one of these, or the definition of one.
    fn stands_for(&self, at: DebugInfoOffset, origins: &BTreeSet<DebugInfoOffset>) -> bool {
        let declared = || {
            let (unit, entry) = self.entry(at)?;
            reference(unit, &entry, gimli::DW_AT_specification)
        };
        origins.contains(&at) || declared().is_some_and(|at| origins.contains(&at))
    }

    fn entry(&self, at: DebugInfoOffset) -> Option<(&Unit<Reader<'a>>, Entry<'_, 'a>)> {
        let (unit, offset) = self.units.iter().find_map(|unit| {
            let offset = at.to_unit_offset(&unit.header)?;
            Some((unit, offset))
        })?;
        Some((unit, unit.entry(offset).ok()?))
    }

    /// The full name, as far as it is known.
    fn name(&self, unit: &Unit<Reader<'a>>, entry: &Entry<'_, 'a>, steps: usize) -> Option<String> {
        let linkage = entry.attr_value(gimli::DW_AT_linkage_name).ok().flatten();
        let linkage = linkage.and_then(|value| self.dwarf.attr_string(unit, value).ok());
        if let Some(linkage) = linkage {
            return Some(demangle(linkage.slice()));
        }
        let follow = |attribute| {
            let at = reference(unit, entry, attribute)?;
            let (unit, entry) = self.entry(at)?;
            self.name(unit, &entry, steps.checked_sub(1)?)
        };
        let origins = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
        let own = || self.attribute_name(unit, entry);
        own().or_else(|| origins.into_iter().find_map(follow))
    }

    fn attribute_name(&self, unit: &Unit<Reader<'a>>, entry: &Entry<'_, 'a>) -> Option<String> {
        let value = entry.attr_value(gimli::DW_AT_name).ok()??;
        let name = self.dwarf.attr_string(unit, value).ok()?;
        Some(clean(name.slice()))
    }
}

fn is_inlined(entry: &Entry<'_, '_>) -> bool {
    let value = entry.attr_value(gimli::DW_AT_inline).ok().flatten();
    let inlined = [gimli::DW_INL_inlined, gimli::DW_INL_declared_inlined];
    matches!(value, Some(AttributeValue::Inline(how)) if inlined.contains(&how))
}

fn reference(
    unit: &Unit<Reader<'_>>,
    entry: &Entry<'_, '_>,
    attribute: gimli::DwAt,
) -> Option<DebugInfoOffset> {
    match entry.attr_value(attribute).ok()?? {
        AttributeValue::UnitRef(at) => at.to_debug_info_offset(&unit.header),
        AttributeValue::DebugInfoRef(at) => Some(at),
        _ => None,
    }
}
