//! The scope of functions that DWARF has only a bare name for.
//!
//! GCC writes no linkage name for constructors that were inlined, nor for instances of templates over
//! lambdas: `threads.emplace_back([] { ... })` would be read as a function `emplace_back` of the program's
//! own. The tree of the unit knows that it is `std::vector<...>::emplace_back`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use gimli::{
    AttributeValue, DebuggingInformationEntry, EndianSlice, LittleEndian, UnitOffset, UnitRef,
};

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Unit<'u, 'a> = UnitRef<'u, Reader<'a>>;

/// Scopes found so far, and what it took to find them.
#[derive(Default)]
pub(crate) struct Scopes {
    scopes: RefCell<HashMap<Key, String>>,
    children: RefCell<HashMap<Key, Rc<[UnitOffset]>>>,
}

/// A unit's offset and an entry's offset in it.
type Key = (usize, usize);

/// What a type without a name is called.
pub(crate) const UNNAMED_TYPE: &str = "(anonymous)";

/// More references than a well-formed entry goes through, and scopes than a program nests.
const MAX_DEPTH: u32 = 16;

impl Scopes {
    /// What stands before the name of the function at `die`, `std::thread` or nothing. `None` if the
    /// tree cannot be read.
    pub(crate) fn of(&self, unit: Unit<'_, '_>, die: UnitOffset) -> Option<String> {
        self.declared(unit, die, MAX_DEPTH)
    }

    /// Follows a function to where it was declared: that is where its scope is.
    fn declared(&self, unit: Unit<'_, '_>, die: UnitOffset, depth: u32) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        match origin(&unit.entry(die).ok()?) {
            Some(AttributeValue::UnitRef(next)) => self.declared(unit, next, depth),
            Some(AttributeValue::DebugInfoRef(next)) => {
                // `dwz` and link-time optimisation move declarations to units of their own.
                let mut units = unit.dwarf.units();
                while let Some(header) = units.next().ok()? {
                    if let Some(next) = next.to_unit_offset(&header) {
                        let other = unit.dwarf.unit(header).ok()?;
                        return self.declared(other.unit_ref(unit.dwarf), next, depth);
                    }
                }
                None
            }
            Some(_) => None,
            None => self.around(unit, die, depth),
        }
    }

    /// The scope around a declaration, outermost first.
    fn around(&self, unit: Unit<'_, '_>, die: UnitOffset, depth: u32) -> Option<String> {
        let key = (unit_key(unit), die.0);
        if let Some(scope) = self.scopes.borrow().get(&key) {
            return Some(scope.clone());
        }
        let mut parts: Vec<String> = Vec::new();
        for ancestor in self.ancestors(unit, die)?.into_iter().rev() {
            let entry = unit.entry(ancestor).ok()?;
            match entry.tag() {
                gimli::DW_TAG_namespace
                | gimli::DW_TAG_module
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
                | gimli::DW_TAG_subprogram => {}
                _ => continue,
            }
            parts.push(name(unit, ancestor, MAX_DEPTH).unwrap_or_else(|| unnamed(entry.tag())));
            if origin(&entry).is_some() {
                let outer = self.declared(unit, ancestor, depth)?;
                parts.extend(Some(outer).filter(|outer| !outer.is_empty()));
                break;
            }
        }
        parts.reverse();
        let scope = parts.join("::");
        self.scopes.borrow_mut().insert(key, scope.clone());
        Some(scope)
    }

    /// The entries that `die` is in, outermost first.
    fn ancestors(&self, unit: Unit<'_, '_>, die: UnitOffset) -> Option<Vec<UnitOffset>> {
        let mut path = Vec::new();
        let mut at = unit.entries_raw(None).ok()?.next_offset();
        while at != die {
            path.push(at);
            let children = self.children(unit, at)?;
            let next = children
                .partition_point(|child| child.0 <= die.0)
                .checked_sub(1)?;
            at = children[next];
        }
        Some(path)
    }

    fn children(&self, unit: Unit<'_, '_>, parent: UnitOffset) -> Option<Rc<[UnitOffset]>> {
        let key = (unit_key(unit), parent.0);
        if let Some(children) = self.children.borrow().get(&key) {
            return Some(children.clone());
        }
        let mut tree = unit.entries_tree(Some(parent)).ok()?;
        let mut iter = tree.root().ok()?.children();
        let mut children = Vec::new();
        while let Some(child) = iter.next().ok()? {
            children.push(child.entry().offset());
        }
        let children: Rc<[UnitOffset]> = children.into();
        self.children.borrow_mut().insert(key, children.clone());
        Some(children)
    }
}

/// Where the unit is: units of a split file have no offset in `.debug_info`, but an id.
fn unit_key(unit: Unit<'_, '_>) -> usize {
    let split = unit.dwo_id.map_or(0, |id| id.0 as usize);
    unit.header
        .offset()
        .as_debug_info_offset()
        .map_or(0, |offset| offset.0)
        ^ split
}

/// The entry that this one completes.
fn origin<'a>(
    entry: &DebuggingInformationEntry<'_, '_, Reader<'a>>,
) -> Option<AttributeValue<Reader<'a>>> {
    [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification]
        .into_iter()
        .find_map(|attribute| entry.attr_value(attribute).ok().flatten())
}

/// The bare name of an entry, which the entry that it completes may have.
fn name(unit: Unit<'_, '_>, die: UnitOffset, depth: u32) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let entry = unit.entry(die).ok()?;
    if let Some(name) = entry.attr_value(gimli::DW_AT_name).ok()? {
        return Some(crate::demangle::clean(unit.attr_string(name).ok()?.slice()));
    }
    match origin(&entry)? {
        AttributeValue::UnitRef(next) => name(unit, next, depth),
        _ => None,
    }
}

fn unnamed(tag: gimli::DwTag) -> String {
    match tag {
        gimli::DW_TAG_namespace => "(anonymous namespace)",
        _ => UNNAMED_TYPE,
    }
    .to_owned()
}
