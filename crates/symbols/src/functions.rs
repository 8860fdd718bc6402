//! Where functions begin and end, by the tables with which the stack is unwound: there also where no name is left.

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};

use crate::elf::Image;

/// A function's first address and its length, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// The function at each of `addresses` (ascending).
pub(crate) fn at(image: &Image, addresses: &[u64]) -> Vec<Option<Function>> {
    let mut functions = vec![None; addresses.len()];
    each(image, |function| {
        let end = function.start.saturating_add(function.length);
        let first = addresses.partition_point(|&a| a < function.start);
        let inside = addresses.partition_point(|&a| a < end);
        if first < inside {
            functions[first..inside].fill(Some(function));
        }
    });
    functions
}

/// All functions, in no order.
pub(crate) fn all(image: &Image) -> Vec<Function> {
    let mut functions = Vec::new();
    each(image, |function| functions.push(function));
    functions
}

fn each(image: &Image, mut act: impl FnMut(Function)) {
    let Some(at) = image.section_address(".eh_frame") else {
        return;
    };
    let bytes = image.section(".eh_frame").unwrap_or_default();
    let bases = BaseAddresses::default().set_eh_frame(at);
    let section = EhFrame::new(bytes, LittleEndian);
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        act(Function {
            start: entry.initial_address(),
            length: entry.len(),
        });
    }
}
