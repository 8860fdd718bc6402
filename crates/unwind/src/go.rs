//! The code of Go in a file that has C in it as well (cgo): the C compiler tells about its frames in `.eh_frame`, Go about its own
//! in `.debug_frame`. The one table knows nothing of the code of the other.

use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, DebugFrame, LittleEndian, UnwindSection};

/// Go's own table of functions: no program of Go is without it.
pub(crate) const FUNCTIONS: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];

/// Between two functions of one piece there is not more: they begin at addresses that are divisible by 16 or 32.
const GAP: u64 = 256;

/// The largest piece of code that a `.debug_frame` tells about, in the file's own numbering: Go's linker lays all of Go's in one. Of other
/// code, too, there may be entries in it; what lies between, it does not know.
pub(crate) fn code(debug_frame: &[u8]) -> Option<Range<u64>> {
    let mut table = DebugFrame::new(debug_frame, LittleEndian);
    table.set_address_size(8);
    let bases = BaseAddresses::default();
    let mut entries = table.entries(&bases);
    let mut functions = Vec::new();
    while let Some(entry) = entries.next().ok()? {
        if let CieOrFde::Fde(entry) = entry {
            let entry = entry.parse(DebugFrame::cie_from_offset).ok()?;
            functions.push(entry.initial_address()..entry.end_address());
        }
    }
    largest_piece(functions)
}

fn largest_piece(mut functions: Vec<Range<u64>>) -> Option<Range<u64>> {
    functions.retain(|function| !function.is_empty());
    functions.sort_unstable_by_key(|function| function.start);
    let mut pieces: Vec<Range<u64>> = Vec::new();
    for function in functions {
        match pieces.last_mut() {
            Some(last) if function.start <= last.end.saturating_add(GAP) => {
                last.end = last.end.max(function.end);
            }
            _ => pieces.push(function),
        }
    }
    pieces
        .into_iter()
        .max_by_key(|piece| piece.end - piece.start)
}

#[cfg(test)]
mod tests {
    use super::{code, largest_piece};

    #[test]
    fn what_is_no_table_is_about_nothing() {
        for bytes in [&[][..], &[0; 3], &[0xff; 64], &[7; 64]] {
            assert_eq!(code(bytes), None);
        }
    }

    #[test]
    fn entries_of_other_code_do_not_make_gos_any_longer() {
        let go = [0x5000..0x5100, 0x5120..0x6000, 0x4f00..0x5000];
        // One that the linker has thrown away, one of C far below, one without an instruction, and one at the end of addresses.
        let others = [
            0..0x40,
            0x1000..0x1080,
            0x9000..0x9000,
            u64::MAX - 1..u64::MAX,
        ];
        let all: Vec<_> = go.into_iter().chain(others).collect();
        assert_eq!(largest_piece(all), Some(0x4f00..0x6000));
        assert_eq!(largest_piece(Vec::new()), None);
    }
}
