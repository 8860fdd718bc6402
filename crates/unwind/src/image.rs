//! What is needed of one ELF file: where it is loaded, how its frames are unwound, where its functions are.

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use object::elf::{FileHeader64, ProgramHeader64, PF_X, PT_LOAD, SHF_COMPRESSED, SHT_NOBITS};
use object::read::elf::{
    CompressionHeader, FileHeader, ProgramHeader, SectionHeader, SectionTable,
};
use object::{LittleEndian, ReadCache, ReadRef};

use crate::files::KeptFile;
use crate::functions::{Functions, Tables};
use crate::imports::{Imports, Relocations};

/// Frame information of one file beyond this is not read: Chromium has 30 MB.
const MAX_SECTION_BYTES: u64 = 128 << 20;
/// Entries of a table that are read at once.
const ENTRIES: usize = 4096;

const LE: LittleEndian = LittleEndian;
type Header = FileHeader64<LittleEndian>;

/// A part of the file that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    offset: u64,
    address: u64,
    file_bytes: u64,
    memory_bytes: u64,
    executable: bool,
}

/// Contents of a section, shared by all processes that map the file, and its address.
type Section = Option<(Range<u64>, Arc<[u8]>)>;

/// Who tells how frames are unwound, as the unwinder takes it.
pub(crate) type FrameTables = ExplicitModuleSectionInfo<Arc<[u8]>>;

/// One ELF file, shared by all processes that map it.
#[derive(Debug, Default)]
pub(crate) struct Image {
    /// The file, as long as not too many are open.
    pub(crate) file: Option<Arc<KeptFile>>,
    /// Contents of an image that has no file.
    memory: Vec<u8>,
    pub(crate) build_id: Vec<u8>,
    loads: Vec<Load>,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    eh_frame: Section,
    eh_frame_hdr: Section,
    debug_frame: Section,
    /// Code that only `debug_frame` tells about.
    go: Option<Range<u64>>,
    pub(crate) tables: Tables,
    /// Functions that were asked for, by first address.
    pub(crate) functions: Functions,
    pub(crate) relocations: Relocations,
    pub(crate) imports: Imports,
}

impl Image {
    /// Reads a file.
    pub(crate) fn of_file(file: &File) -> Option<Self> {
        parse(&ReadCache::new(file))
    }

    /// Takes the bytes of an image without a file.
    pub(crate) fn of_memory(bytes: Vec<u8>) -> Option<Self> {
        let mut image = parse(&ReadCache::new(Cursor::new(bytes.as_slice())))?;
        image.memory = bytes;
        Some(image)
    }

    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        [&self.eh_frame, &self.eh_frame_hdr, &self.debug_frame]
            .into_iter()
            .flatten()
            .map(|(_, data)| data.len())
            .sum::<usize>()
            + self.memory.len()
            + size_of::<Self>()
    }

    /// Whether it says how its frames are unwound.
    pub(crate) fn has_rules(&self) -> bool {
        self.eh_frame.is_some() || self.debug_frame.is_some()
    }

    /// Load bias, from one executable mapping: its first address and the offset of that in the file.
    pub(crate) fn bias(&self, lo: u64, hi: u64, offset: u64) -> Option<u64> {
        let end = offset.checked_add(hi.checked_sub(lo)?)?;
        let load = self.loads.iter().find(|load| {
            load.executable
                && load.offset < end
                && offset < load.offset.saturating_add(load.file_bytes)
        })?;
        // Addresses and offsets differ by a constant inside of a segment.
        let address = load.address.wrapping_sub(load.offset).wrapping_add(offset);
        Some(lo.wrapping_sub(address))
    }

    /// First address and the one past the last, in the file's own numbering.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        let lo = self.loads.iter().map(|load| load.address).min()?;
        let end = |load: &Load| load.address.saturating_add(load.memory_bytes);
        Some((lo, self.loads.iter().map(end).max()?))
    }

    /// The code in `within` by who tells how its frames are unwound: addresses in the file's own numbering, and the rules as the
    /// unwinder takes them. `base` is subtracted from addresses.
    pub(crate) fn rules(&self, base: u64, within: Range<u64>) -> Vec<(Range<u64>, FrameTables)> {
        let Some(go) = self.go.clone().filter(|_| within.start < within.end) else {
            return vec![(within, self.tables_of(base, false))];
        };
        let lo = go.start.clamp(within.start, within.end);
        let hi = go.end.clamp(lo, within.end);
        let pieces = [
            (within.start..lo, false),
            (lo..hi, true),
            (hi..within.end, false),
        ];
        let pieces = pieces.into_iter().filter(|(piece, _)| !piece.is_empty());
        pieces
            .map(|(piece, is_go)| (piece, self.tables_of(base, is_go)))
            .collect()
    }

    fn tables_of(&self, base: u64, is_go: bool) -> FrameTables {
        let address = |section: &Section| section.as_ref().map(|(range, _)| range.clone());
        let data = |section: &Section| section.as_ref().map(|(_, data)| data.clone());
        let places = ExplicitModuleSectionInfo {
            base_svma: base,
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            ..ExplicitModuleSectionInfo::default()
        };
        if is_go || self.eh_frame.is_none() {
            return ExplicitModuleSectionInfo {
                debug_frame: data(&self.debug_frame),
                ..places
            };
        }
        ExplicitModuleSectionInfo {
            eh_frame_svma: address(&self.eh_frame),
            eh_frame: data(&self.eh_frame),
            eh_frame_hdr_svma: address(&self.eh_frame_hdr),
            eh_frame_hdr: data(&self.eh_frame_hdr),
            ..places
        }
    }

    /// Reads up to `buffer.len()` bytes at `offset` of the file; how many there were.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        if let Some(file) = &self.file {
            return file.read_at(buffer, offset).ok();
        }
        let rest = self.memory.get(usize::try_from(offset).ok()?..)?;
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Some(length)
    }

    /// Reads a table through: `n` entries of so many bytes each at `offset` of the file, as far as it goes.
    pub(crate) fn entries(&self, offset: u64, n: u64, bytes: usize, mut each: impl FnMut(&[u8])) {
        let mut buffer = vec![0; ENTRIES * bytes];
        let mut at = 0;
        while at < n {
            let wanted = (n - at).min(ENTRIES as u64) as usize * bytes;
            let from = offset.checked_add(at * bytes as u64);
            let read = from.and_then(|from| self.read_at(&mut buffer[..wanted], from));
            let read = read.unwrap_or(0);
            buffer[..read].chunks_exact(bytes).for_each(&mut each);
            if read < wanted {
                break; // the file is shorter than it says
            }
            at += ENTRIES as u64;
        }
    }
}

fn parse<R: Read + Seek>(data: &ReadCache<R>) -> Option<Image> {
    let header = Header::parse(data).ok()?;
    header.endian().ok()?;
    let segments = header.program_headers(LE, data).ok()?;
    let mut image = Image {
        loads: segments.iter().filter_map(load).collect(),
        ..Image::default()
    };
    // A file may have lost its section headers and still run.
    let Ok(sections) = header.sections(LE, data) else {
        return Some(image);
    };
    image.build_id = build_id(header, data).unwrap_or_default();
    let range = |name: &[u8]| {
        let (_, section) = sections.section_by_name(LE, name)?;
        let lo = section.sh_addr(LE);
        Some(lo..lo.checked_add(section.sh_size(LE))?)
    };
    image.text = range(b".text");
    image.got = range(b".got");
    image.eh_frame = section(&sections, data, b".eh_frame");
    image.eh_frame_hdr = section(&sections, data, b".eh_frame_hdr");
    let is_go = crate::go::FUNCTIONS
        .iter()
        .any(|name| sections.section_by_name(LE, name).is_some());
    if image.eh_frame.is_none() || is_go {
        image.debug_frame = section(&sections, data, b".debug_frame");
    }
    if let (Some(_), Some((_, frames))) = (&image.eh_frame, &image.debug_frame) {
        image.go = crate::go::code(frames);
        if image.go.is_none() {
            image.debug_frame = None;
        }
    }
    image.tables = Tables::find(&sections);
    image.relocations = Relocations::find(&sections);
    Some(image)
}

fn load(segment: &ProgramHeader64<LittleEndian>) -> Option<Load> {
    (segment.p_type(LE) == PT_LOAD).then(|| Load {
        offset: segment.p_offset(LE),
        address: segment.p_vaddr(LE),
        file_bytes: segment.p_filesz(LE),
        memory_bytes: segment.p_memsz(LE),
        executable: segment.p_flags(LE) & PF_X != 0,
    })
}

fn build_id<'a, R: ReadRef<'a>>(header: &Header, data: R) -> Option<Vec<u8>> {
    let segments = header.program_headers(LE, data).ok()?;
    for segment in segments {
        let Ok(Some(mut notes)) = segment.notes(LE, data) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == object::elf::ELF_NOTE_GNU
                && note.n_type(LE) == object::elf::NT_GNU_BUILD_ID
            {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

/// The contents of a section, decompressed; `None` where there are none.
fn section<'a, R: ReadRef<'a>>(
    sections: &SectionTable<'a, Header, R>,
    data: R,
    name: &[u8],
) -> Section {
    let (_, section) = sections.section_by_name(LE, name)?;
    let too_large = section.sh_size(LE) > MAX_SECTION_BYTES;
    if section.sh_type(LE) == SHT_NOBITS || section.sh_size(LE) == 0 || too_large {
        return None;
    }
    let bytes: Arc<[u8]> = if section.sh_flags(LE) & u64::from(SHF_COMPRESSED) == 0 {
        section.data(LE, data).ok()?.into()
    } else {
        decompress(section, data)?.into()
    };
    let lo = section.sh_addr(LE);
    Some((lo..lo.checked_add(bytes.len() as u64)?, bytes))
}

fn decompress<'a, R: ReadRef<'a>>(
    section: &object::elf::SectionHeader64<LittleEndian>,
    data: R,
) -> Option<Vec<u8>> {
    let (header, offset, size) = section.compression(LE, data).ok()??;
    let uncompressed_size = header.ch_size(LE);
    if uncompressed_size > MAX_SECTION_BYTES {
        return None;
    }
    let format = match header.ch_type(LE) {
        object::elf::ELFCOMPRESS_ZLIB => object::CompressionFormat::Zlib,
        object::elf::ELFCOMPRESS_ZSTD => object::CompressionFormat::Zstandard,
        _ => return None,
    };
    let compressed = object::CompressedData {
        format,
        data: data.read_bytes_at(offset, size).ok()?,
        uncompressed_size,
    };
    Some(compressed.decompress().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(go: Option<Range<u64>>) -> Image {
        let section = || Some((0..1, Arc::from([0].as_slice())));
        Image {
            eh_frame: section(),
            debug_frame: go.is_some().then(section).flatten(),
            go,
            ..Image::default()
        }
    }

    /// Pieces, and which of them are Go's.
    fn pieces(image: &Image, within: Range<u64>) -> Vec<(Range<u64>, bool)> {
        let rules = image.rules(0, within).into_iter();
        rules
            .map(|(code, rules)| {
                assert_ne!(rules.eh_frame.is_some(), rules.debug_frame.is_some());
                (code, rules.debug_frame.is_some())
            })
            .collect()
    }

    #[test]
    fn a_mapping_is_cut_where_the_code_of_go_begins_and_ends() {
        let image = tables(Some(100..200));
        let (c, go) = (false, true);
        for (within, expected) in [
            (0..300, vec![(0..100, c), (100..200, go), (200..300, c)]),
            (0..150, vec![(0..100, c), (100..150, go)]),
            (150..300, vec![(150..200, go), (200..300, c)]),
            (120..130, vec![(120..130, go)]),
            (0..100, vec![(0..100, c)]),
            (200..210, vec![(200..210, c)]),
        ] {
            assert_eq!(pieces(&image, within.clone()), expected, "{within:?}");
        }
    }

    #[test]
    fn a_mapping_at_the_end_of_all_addresses_is_left_in_one_piece() {
        let (start, end) = (u64::MAX - 4095, 4096);
        let wrapped = Range { start, end };
        for go in [None, Some(100..200)] {
            let found = pieces(&tables(go), wrapped.clone());
            assert_eq!(found, [(wrapped.clone(), false)]);
        }
    }
}
