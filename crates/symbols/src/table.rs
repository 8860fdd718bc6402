//! Symbol tables: which symbol covers an address.
//!
//! All addresses are known beforehand and few beside the symbols, so that one pass over the table, with
//! a search among the addresses for each symbol, beats sorting the table.

use std::cmp::Reverse;

use object::elf::{STB_GLOBAL, STB_LOCAL, STT_COMMON, STT_FUNC, STT_GNU_IFUNC, STT_OBJECT};
use object::read::elf::Sym;
use object::LittleEndian;

use crate::elf::Symbols;

/// What kind of symbol is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Functions.
    Code,
    /// Variables. Thread-local ones have no address in the module and are left out.
    Data,
}

/// A symbol that covers an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit<'a> {
    /// Its name as in the table, mangled.
    pub(crate) name: &'a [u8],
    /// Its address.
    pub(crate) value: u64,
    sized: bool,
    bind: u8,
}

/// Adds to `hits` what `table` knows about those of `addresses` (ascending) that have no hit yet.
/// A symbol covers `[value, value + size)`; one without a size covers its own address only.
pub(crate) fn cover<'a>(
    table: &Symbols<'a>,
    want: Want,
    addresses: &[u64],
    hits: &mut [Option<Hit<'a>>],
) {
    let open: Vec<bool> = hits.iter().map(Option::is_none).collect();
    for symbol in table.iter() {
        let value = symbol.st_value(LittleEndian);
        if symbol.is_undefined(LittleEndian) || value == 0 || !wanted(want, symbol.st_type()) {
            continue;
        }
        let size = symbol.st_size(LittleEndian);
        let end = value.saturating_add(size.max(1));
        let first = addresses.partition_point(|&a| a < value);
        let mut name = None;
        for at in first..addresses.len() {
            if addresses[at] >= end {
                break;
            }
            if !open[at] || hits[at].is_some_and(|hit| hit.sized && hit.value > value) {
                continue;
            }
            // Names are read for covering symbols only: a read costs more than the search.
            let name = *name
                .get_or_insert_with(|| symbol.name(LittleEndian, table.strings()).unwrap_or(b""));
            let hit = Hit {
                name,
                value,
                sized: size > 0,
                bind: symbol.st_bind(),
            };
            if !name.is_empty() && hits[at].is_none_or(|old| better(&hit, &old)) {
                hits[at] = Some(hit);
            }
        }
    }
}

fn wanted(want: Want, kind: u8) -> bool {
    match want {
        Want::Code => matches!(kind, STT_FUNC | STT_GNU_IFUNC),
        Want::Data => matches!(kind, STT_OBJECT | STT_COMMON),
    }
}

/// One with a size before a mere label (`__TMC_END__`); the nearest; among aliases the one that a programmer would know: fewest leading
/// underscores (`pthread_mutex_lock`, not `___pthread_mutex_lock`), then global, then short.
fn better<'a>(new: &Hit<'a>, old: &Hit<'a>) -> bool {
    let rank = |hit: &Hit<'a>| {
        let underscores = hit.name.iter().take_while(|&&b| b == b'_').count();
        let bind = match hit.bind {
            STB_GLOBAL => 0,
            STB_LOCAL => 2,
            _ => 1,
        };
        (underscores, bind, hit.name.len())
    };
    let order = |hit: &Hit<'a>| (Reverse(hit.sized), Reverse(hit.value), rank(hit), hit.name);
    order(new) < order(old)
}
