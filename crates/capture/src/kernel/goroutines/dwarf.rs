//! Offsets of a runtime that is in no table, from the program's own debug information.

use std::collections::HashMap;
use std::fs::File;

use gimli::{
    AttributeValue, DebuggingInformationEntry, EndianSlice, LittleEndian, Reader as _, SectionId,
    Unit, UnitOffset,
};
use object::{Object, ObjectSection, ReadCache};

use super::layout::Layout;

/// More debug information takes longer to unpack than its goroutines are worth: bytes.
const MOST: u64 = 128 << 20;
/// What is read of it.
const SECTIONS: [SectionId; 7] = [
    SectionId::DebugInfo,
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugLine, // the head of a unit leads there
    SectionId::DebugStr,
    SectionId::DebugLineStr,
    SectionId::DebugStrOffsets,
];
/// The units that have them.
const UNIT: &[u8] = b"runtime";
/// Those that fields are wanted of.
const STRUCTURES: [&[u8]; 5] = [
    b"runtime.g",
    b"runtime.gobuf",
    b"runtime.stack",
    b"runtime.sudog",
    b"runtime.hchan",
];

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Fields = HashMap<Vec<u8>, u64>;

/// As the debug information of a program has it; `None` without any, or where a field is not there.
pub(super) fn layout(file: &File) -> Option<Layout> {
    let data = ReadCache::new(file);
    let object = object::File::parse(&data).ok()?;
    // As large as it says that it becomes, and not as it is packed.
    let bytes = |id: &SectionId| {
        let section = object.section_by_name(id.name());
        let data = section.and_then(|section| section.compressed_data().ok());
        data.map_or(0, |data| data.uncompressed_size)
    };
    let all = SECTIONS.iter().map(bytes);
    if all.fold(0, u64::saturating_add) > MOST {
        return None;
    }
    let load = |id: SectionId| -> Result<Vec<u8>, gimli::Error> {
        let wanted = SECTIONS.contains(&id);
        let section = object.section_by_name(id.name()).filter(|_| wanted);
        let data = section.and_then(|section| section.uncompressed_data().ok());
        Ok(data.map_or_else(Vec::new, |data| data.into_owned()))
    };
    let sections = gimli::DwarfSections::load(load).ok()?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut found = HashMap::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let unit = dwarf.unit(header).ok()?;
        // There are several: one for what was compiled, and one for each file of assembler.
        if unit.name.is_some_and(|name| name.slice() == UNIT) {
            structures(&dwarf, &unit, &mut found)?;
        }
    }
    of_structures(&found)
}

/// Those of a unit that are wanted.
fn structures(
    dwarf: &gimli::Dwarf<Reader<'_>>,
    unit: &Unit<Reader<'_>>,
    found: &mut HashMap<Vec<u8>, Fields>,
) -> Option<()> {
    let mut entries = unit.entries();
    while let Ok(Some((_, entry))) = entries.next_dfs() {
        if entry.tag() != gimli::DW_TAG_structure_type {
            continue;
        }
        let wanted = |name: &Vec<u8>| STRUCTURES.contains(&name.as_slice());
        if let Some(name) = name(dwarf, unit, entry).filter(wanted) {
            found.insert(name, fields(dwarf, unit, entry.offset())?);
        }
    }
    Some(())
}

fn of_structures(found: &HashMap<Vec<u8>, Fields>) -> Option<Layout> {
    let field = |of: &[u8], name: &[u8]| found.get(of)?.get(name).copied();
    let g = |name: &[u8]| field(b"runtime.g", name);
    let gobuf = |name: &[u8]| field(b"runtime.gobuf", name);
    let sched = |name: &[u8]| g(b"sched")?.checked_add(gobuf(name)?);
    Some(Layout {
        stack_hi: g(b"stack")?.checked_add(field(b"runtime.stack", b"hi")?)?,
        sp: sched(b"sp")?,
        pc: sched(b"pc")?,
        bp: sched(b"bp")?,
        status: g(b"atomicstatus")?,
        id: g(b"goid")?,
        reason: g(b"waitreason")?,
        turns: g(b"trackingSeq")?,
        start: g(b"startpc")?,
        waiting: g(b"waiting")?,
        channel: field(b"runtime.sudog", b"c")?,
        capacity: field(b"runtime.hchan", b"dataqsiz")?,
    })
}

/// Offsets of the fields of a structure.
fn fields(
    dwarf: &gimli::Dwarf<Reader<'_>>,
    unit: &Unit<Reader<'_>>,
    at: UnitOffset,
) -> Option<Fields> {
    let mut found = Fields::new();
    let mut tree = unit.entries_tree(Some(at)).ok()?;
    let mut children = tree.root().ok()?.children();
    while let Ok(Some(child)) = children.next() {
        let entry = child.entry();
        let offset = entry
            .attr_value(gimli::DW_AT_data_member_location)
            .ok()
            .flatten();
        let offset = offset.and_then(|value| match value {
            AttributeValue::Exprloc(mut expression) => {
                // Older ones say "plus so many" instead of so many.
                (expression.0.read_u8().ok()? == gimli::DW_OP_plus_uconst.0)
                    .then(|| expression.0.read_uleb128().ok())?
            }
            value => value.udata_value(),
        });
        if let (Some(name), Some(offset)) = (name(dwarf, unit, entry), offset) {
            found.insert(name, offset);
        }
    }
    Some(found)
}

fn name(
    dwarf: &gimli::Dwarf<Reader<'_>>,
    unit: &Unit<Reader<'_>>,
    entry: &DebuggingInformationEntry<'_, '_, Reader<'_>>,
) -> Option<Vec<u8>> {
    let value = entry.attr_value(gimli::DW_AT_name).ok().flatten()?;
    let name = dwarf.attr_string(unit, value).ok()?;
    Some(name.slice().to_vec())
}
