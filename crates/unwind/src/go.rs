//! The code of Go in a file that has C in it as well (cgo): the C compiler tells about its frames in `.eh_frame`, Go about its own
//! in `.debug_frame`. The one table knows nothing of the code of the other.

use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, DebugFrame, LittleEndian, UnwindSection};

/// Go's own table of functions: no program of Go is without it.
pub(crate) const FUNCTIONS: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];

/// The code that a `.debug_frame` is about, in the file's own numbering: Go's linker lays all of Go's in one piece.
pub(crate) fn code(debug_frame: &[u8]) -> Option<Range<u64>> {
    let mut table = DebugFrame::new(debug_frame, LittleEndian);
    table.set_address_size(8);
    let bases = BaseAddresses::default();
    let mut entries = table.entries(&bases);
    let mut all: Option<Range<u64>> = None;
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(entry) = entry else {
            continue;
        };
        let entry = entry.parse(DebugFrame::cie_from_offset).ok()?;
        let (lo, hi) = (entry.initial_address(), entry.end_address());
        let before = all.unwrap_or(lo..hi);
        all = Some(before.start.min(lo)..before.end.max(hi));
    }
    all.filter(|code| !code.is_empty())
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn what_is_no_table_is_about_nothing() {
        for bytes in [&[][..], &[0; 3], &[0xff; 64], &[7; 64]] {
            assert_eq!(code(bytes), None);
        }
    }
}
