//! Instructions of a source line, by the line tables of debug information.

use std::ops::Range;

use addr2line::Context;
use convoy_profile::Module;

use crate::dwarf::load;
use crate::elf::Store;
use crate::locate;
use crate::Options;

/// Addresses in the file whose innermost line this is, those of inlined copies, too. `source`: the
/// path of the source file, or an end of it. `None` = there is no debug information, or more than
/// the options allow.
pub fn line_ranges(
    module: &Module,
    options: &Options,
    source: &str,
    line: u32,
) -> Option<Vec<Range<u64>>> {
    let store = Store::default();
    let files = locate::files(&store, module, options);
    let own = files.own.as_ref().ok();
    let found = files
        .debug
        .as_ref()
        .or(own.filter(|f| f.image.has_dwarf()))?;
    if found.image.section_size(".debug_info") > options.max_debug_bytes {
        return None;
    }
    let dwarf = gimli::Dwarf::load(|id| load(&found.image, id.name())).ok()?;
    let context = Context::from_dwarf(dwarf).ok()?;
    let rows = context.find_location_range(0, u64::MAX).ok()?;
    let ranges = rows.filter_map(|(at, length, location)| {
        let is_it = location.line == Some(line) && is_end(location.file?, source);
        is_it.then(|| at..at.saturating_add(length))
    });
    Some(ranges.collect())
}

/// Whether a path is `end`, or ends with it after a slash.
fn is_end(path: &str, end: &str) -> bool {
    let head = path.strip_suffix(end.trim_start_matches("./"));
    head.is_some_and(|head| head.is_empty() || head.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::is_end;

    #[test]
    fn source_files_are_named_by_an_end_of_their_path() {
        for end in ["/src/a.c", "src/a.c", "a.c", "./a.c"] {
            assert!(is_end("/src/a.c", end), "{end}");
        }
        for end in ["b.c", ".c", "/a.c", "rc/a.c"] {
            assert!(!is_end("/src/a.c", end), "{end}");
        }
    }
}
