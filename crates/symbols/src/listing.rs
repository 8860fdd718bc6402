//! All functions of a module: those with names, and those that only the unwinding tables know.

use std::collections::BTreeMap;

use convoy_profile::Module;
use object::elf::{STT_FUNC, STT_GNU_IFUNC};
use object::read::elf::Sym;
use object::LittleEndian;

use crate::elf::{Image, Store, Symbols};
use crate::functions;
use crate::locate;
use crate::Options;

/// A function of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFunction {
    /// Names as the linker knows them; empty if none is left.
    pub names: Vec<String>,
    /// First address, in the module's own numbering.
    pub start: u64,
    /// Bytes.
    pub length: u64,
}

/// Lists the functions of a module by address.
///
/// Ranges are those of the unwinding tables; parts that a compiler has moved away (`.cold`) are no
/// functions, and neither are functions that only choose another one (indirect functions).
///
/// # Errors
/// The file cannot be read, or is not the one that runs.
pub fn list_functions(module: &Module, options: &Options) -> Result<Vec<ListedFunction>, String> {
    let store = Store::default();
    let files = locate::files(&store, module, options);
    let own = match &files.own {
        Ok(own) => &own.image,
        Err((_, why)) => return Err(why.clone()),
    };
    let mut named: BTreeMap<u64, Named> = BTreeMap::new();
    let mini = own.mini_debug_info().and_then(Result::ok);
    let debug = files.debug.as_ref().map(|found| &found.image);
    let images = [Some(own), debug, mini.as_ref()];
    for image in images.into_iter().flatten() {
        for table in [image.symtab(), image.dynsym()].into_iter().flatten() {
            add(table, &mut named);
        }
    }
    Ok(with_ranges(own, named))
}

/// What symbols say of an address.
#[derive(Debug, Default)]
struct Named {
    names: Vec<String>,
    size: u64,
    /// It is no function of its own.
    is_none: bool,
}

fn add(table: &Symbols<'_>, named: &mut BTreeMap<u64, Named>) {
    for symbol in table.iter() {
        let value = symbol.st_value(LittleEndian);
        let kind = symbol.st_type();
        let is_function = matches!(kind, STT_FUNC | STT_GNU_IFUNC);
        if symbol.is_undefined(LittleEndian) || value == 0 || !is_function {
            continue;
        }
        let name = symbol.name(LittleEndian, table.strings()).unwrap_or(b"");
        let name = String::from_utf8_lossy(name).into_owned();
        let entry = named.entry(value).or_default();
        entry.is_none |= kind == STT_GNU_IFUNC || is_part(&name);
        entry.size = entry.size.max(symbol.st_size(LittleEndian));
        if !name.is_empty() && !entry.names.contains(&name) {
            entry.names.push(name);
        }
    }
}

/// The rarely executed part of another function.
fn is_part(name: &str) -> bool {
    name.split('.').skip(1).any(|suffix| suffix == "cold")
}

fn with_ranges(own: &Image<'_>, mut named: BTreeMap<u64, Named>) -> Vec<ListedFunction> {
    let mut all = Vec::new();
    for function in functions::all(own) {
        let named = named.remove(&function.start).unwrap_or_default();
        if !named.is_none {
            all.push(ListedFunction {
                names: named.names,
                start: function.start,
                length: function.length,
            });
        }
    }
    let rest = named.into_iter().filter(|(_, n)| n.size > 0 && !n.is_none);
    all.extend(rest.map(|(start, named)| ListedFunction {
        names: named.names,
        start,
        length: named.size,
    }));
    all.sort_by_key(|function| function.start);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_test_are_listed_with_their_ranges() {
        let exe = std::env::current_exe().unwrap();
        let module = Module {
            path: exe.to_str().unwrap().into(),
            build_id: Vec::new(),
            bias: 0,
            lo: 0,
            hi: u64::MAX,
            symbols: String::new(),
        };
        let all = list_functions(&module, &Options::default()).unwrap();
        let main = all.iter().find(|f| f.names.iter().any(|n| n == "main"));
        assert!(main.is_some_and(|main| main.length > 0));
        assert!(all.windows(2).all(|pair| pair[0].start <= pair[1].start));
    }

    #[test]
    fn parts_of_functions_are_told_by_their_suffix() {
        assert!(is_part("main.cold") && is_part("f.isra.0.cold"));
        assert!(!is_part("cold") && !is_part("f.constprop.0"));
    }
}
