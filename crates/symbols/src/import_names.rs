//! Functions of stripped libraries, by the names that programs call them by: an exported function may jump on into one
//! that has no name, and that is the one on the stack (`localtime()` of glibc). x86-64.

use std::collections::{BTreeMap, BTreeSet};

use convoy_profile::{Process, Symbol};
use object::elf::{R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT};
use object::read::elf::Sym;
use object::{LittleEndian, SymbolIndex};

use crate::demangle::Names;
use crate::elf::{Image, Store};
use crate::module::only_name;
use crate::{locate, Options};

/// Names frames that have none by what their callers in other modules call, if all of them call the same.
pub(crate) fn name(process: &mut Process, options: &Options) {
    let callers = callers(process);
    let mut by_module: BTreeMap<u32, BTreeMap<u64, Option<String>>> = BTreeMap::new();
    for caller in callers.values().flatten() {
        by_module
            .entry(caller.module)
            .or_default()
            .insert(caller.back, None);
    }
    for (ix, calls) in &mut by_module {
        let Some(module) = process.modules.get(*ix as usize) else {
            continue;
        };
        let store = Store::default();
        let Ok(found) = locate::own(&store, module, options) else {
            continue;
        };
        let imports = Imports::of(&found.image);
        for (back, name) in calls {
            *name = imports.called(*back);
        }
    }
    for (frame, callers) in callers {
        let names: BTreeSet<_> = callers
            .iter()
            .map(|caller| by_module.get(&caller.module)?.get(&caller.back)?.as_ref())
            .collect();
        if let (1, Some(Some(name))) = (names.len(), names.first()) {
            process.frames[frame].symbol = only_name((*name).clone());
        }
    }
}

/// A call.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Caller {
    module: u32,
    /// Where it returns to, in the module's own numbering.
    back: u64,
}

/// Who calls frames without a name out of another module.
fn callers(process: &Process) -> BTreeMap<usize, BTreeSet<Caller>> {
    let mut callers: BTreeMap<usize, BTreeSet<Caller>> = BTreeMap::new();
    for stack in &process.stacks {
        for pair in stack.windows(2) {
            let callee = pair[0] as usize;
            let (Some(inner), Some(outer)) = (
                process.frames.get(callee),
                process.frames.get(pair[1] as usize),
            ) else {
                continue;
            };
            let unknown = matches!(inner.symbol, Symbol::Unknown(_)) && inner.module.is_some();
            if let Some(module) = outer
                .module
                .filter(|_| unknown && inner.module != outer.module && !outer.exact)
            {
                let back = outer.offset;
                callers
                    .entry(callee)
                    .or_default()
                    .insert(Caller { module, back });
            }
        }
    }
    callers
}

/// What a module takes from others.
struct Imports<'a, 'i> {
    image: &'i Image<'a>,
    /// By the address of the word that leads to it.
    slots: BTreeMap<u64, usize>,
    names: Names,
}

impl<'a, 'i> Imports<'a, 'i> {
    fn of(image: &'i Image<'a>) -> Self {
        /// Bytes of a relocation: where, what, and an addend.
        const RELOCATION: usize = 24;
        let mut slots = BTreeMap::new();
        for section in [".rela.plt", ".rela.dyn"] {
            let bytes = image.section(section).unwrap_or_default();
            for relocation in bytes.chunks_exact(RELOCATION) {
                let word = |at| relocation.get(at..at + 8)?.try_into().ok();
                let (Some(at), Some(what)) = (word(0), word(8)) else {
                    continue;
                };
                let what = u64::from_le_bytes(what);
                if matches!(what as u32, R_X86_64_JUMP_SLOT | R_X86_64_GLOB_DAT) {
                    slots.insert(u64::from_le_bytes(at), (what >> 32) as usize);
                }
            }
        }
        Self {
            image,
            slots,
            names: Names::default(),
        }
    }

    /// The function that the call before `back` leads to: through a word, or through a stub that jumps through one.
    fn called(&self, back: u64) -> Option<String> {
        let before = self.image.bytes_at(back.checked_sub(6)?, 6)?;
        if let [0xff, 0x15, distance @ ..] = before {
            return self.named(moved(back, distance)?);
        }
        let [_, 0xe8, distance @ ..] = before else {
            return None;
        };
        let stub = moved(back, distance)?;
        let code = self.image.bytes_at(stub, 16)?;
        let prefixes = [&[0xf3, 0x0f, 0x1e, 0xfa][..], &[0xf2]];
        let jump = prefixes.iter().fold(code, |code, prefix| {
            code.strip_prefix(*prefix).unwrap_or(code)
        });
        let distance = jump.strip_prefix(&[0xff, 0x25])?.get(..4)?;
        let next = stub + (code.len() - jump.len()) as u64 + 6;
        self.named(moved(next, distance)?)
    }

    fn named(&self, slot: u64) -> Option<String> {
        let table = self.image.dynsym()?;
        let symbol = table.symbol(SymbolIndex(*self.slots.get(&slot)?)).ok()?;
        let name = symbol.name(LittleEndian, table.strings()).ok()?;
        Some(self.names.demangle(name)).filter(|name| !name.is_empty())
    }
}

/// `from` and a signed distance of four bytes.
fn moved(from: u64, distance: &[u8]) -> Option<u64> {
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    from.checked_add_signed(i64::from(distance))
}
