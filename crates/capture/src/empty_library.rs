//! Empty 32-bit shared library, for loaders that could not load the agent.
//!
//! A 64-bit machine also runs 32-bit programs, and `LD_PRELOAD` is inherited. Their loader writes an
//! error into the program's standard error for each preload of the wrong class; of this library it
//! loads nothing that could be called.

use object::elf::{
    DT_HASH, DT_NULL, DT_STRSZ, DT_STRTAB, DT_SYMENT, DT_SYMTAB, ELFCLASS32, ELFDATA2LSB, ELFMAG,
    ET_DYN, EV_CURRENT, PF_R, PF_W, PT_DYNAMIC, PT_GNU_STACK, PT_LOAD,
};

/// Bytes of the parts, in the order of the file.
const HEADER: u32 = 52;
const SEGMENT: u32 = 32;
const SEGMENTS: u32 = 3;
const SYMBOL: u32 = 16;
/// One bucket, one symbol (the null one) that it points to.
const HASH: [u32; 4] = [1, 1, 0, 0];
/// Tags and their values: five, and the end.
const DYNAMIC: u32 = 6 * 8;

const DYNAMIC_AT: u32 = HEADER + SEGMENTS * SEGMENT;
const SYMBOLS_AT: u32 = DYNAMIC_AT + DYNAMIC;
const HASH_AT: u32 = SYMBOLS_AT + SYMBOL;
/// One empty string, padded to a word.
const STRINGS_AT: u32 = HASH_AT + 16;
const END: u32 = STRINGS_AT + 4;

/// The library for the machine of this number (`EM_386`, `EM_ARM`). It is mapped without execute
/// permission and does not ask for an executable stack.
pub(crate) fn empty_library(machine: u16) -> Vec<u8> {
    let mut file = Vec::with_capacity(END as usize);
    file.extend(ELFMAG);
    file.extend([ELFCLASS32, ELFDATA2LSB, EV_CURRENT, 0]);
    file.extend([0; 8]);
    half_words(&mut file, &[ET_DYN, machine]);
    words(&mut file, &[u32::from(EV_CURRENT), 0, HEADER, 0, 0]);
    let (header, segment) = (HEADER as u16, SEGMENT as u16);
    half_words(&mut file, &[header, segment, SEGMENTS as u16, 0, 0, 0]);
    // The loader relocates the dynamic section in place: its page is writable. 64 KiB is the largest page.
    words(&mut file, &segment_of(PT_LOAD, 0, END, 0x1_0000));
    words(&mut file, &segment_of(PT_DYNAMIC, DYNAMIC_AT, DYNAMIC, 4));
    words(&mut file, &segment_of(PT_GNU_STACK, 0, 0, 16));
    for (tag, value) in [
        (DT_HASH, HASH_AT),
        (DT_SYMTAB, SYMBOLS_AT),
        (DT_SYMENT, SYMBOL),
        (DT_STRTAB, STRINGS_AT),
        (DT_STRSZ, 1),
        (DT_NULL, 0),
    ] {
        words(&mut file, &[tag, value]);
    }
    words(&mut file, &[0; 4]);
    words(&mut file, &HASH);
    words(&mut file, &[0]);
    file
}

/// A program header: kind, offset, two addresses, two sizes, permissions, alignment.
fn segment_of(kind: u32, at: u32, bytes: u32, align: u32) -> [u32; 8] {
    [kind, at, at, at, bytes, bytes, PF_R | PF_W, align]
}

fn words(file: &mut Vec<u8>, values: &[u32]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn half_words(file: &mut Vec<u8>, values: &[u16]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf::{FileHeader32, EM_386};
    use object::read::elf::{Dyn, FileHeader, ProgramHeader};
    use object::Endianness;

    #[test]
    fn library_has_a_dynamic_section_and_no_code() {
        let file = empty_library(EM_386);
        assert_eq!(file.len(), END as usize);
        let data = file.as_slice();
        let header = FileHeader32::<Endianness>::parse(data).unwrap();
        let endian = header.endian().unwrap();
        assert_eq!(
            (header.e_type(endian), header.e_machine(endian)),
            (ET_DYN, EM_386)
        );
        let segments = header.program_headers(endian, data).unwrap();
        assert_eq!(segments.len(), SEGMENTS as usize);
        assert!(segments.iter().all(|s| s.p_flags(endian) == PF_R | PF_W));
        let dynamic = segments
            .iter()
            .find_map(|s| s.dynamic(endian, data).unwrap());
        let tags: Vec<_> = dynamic.unwrap().iter().map(|d| d.d_tag(endian)).collect();
        assert_eq!(
            tags,
            [DT_HASH, DT_SYMTAB, DT_SYMENT, DT_STRTAB, DT_STRSZ, DT_NULL]
        );
    }
}
