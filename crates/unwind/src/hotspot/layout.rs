//! Where in the machine's structures what is, as it says so itself.

use std::collections::HashMap;
use std::fs::File;

use object::{Object, ObjectSymbol, ReadCache};

use super::memory::{Memory, ADDRESSES};

/// More fields than any version exports: OpenJDK 17 has 2,000.
const ENTRIES: usize = 10_000;
/// Larger than any structure that is read here.
const LARGEST: u64 = 1 << 16;
/// Largest entry, and how many are read at once.
const STRIDE: u64 = 256;
const AT_ONCE: usize = 128;

/// Addresses of the tables, and of what says how they are read.
pub(super) struct Table(HashMap<String, u64>);

impl Table {
    pub(super) fn of(file: &File, bias: u64) -> Option<Self> {
        let data = ReadCache::new(file);
        let object = object::File::parse(&data).ok()?;
        let symbols = object.dynamic_symbols().filter_map(|symbol| {
            let name = symbol.name().ok()?.strip_prefix("gHotSpotVM")?;
            Some((name.to_owned(), symbol.address().wrapping_add(bias)))
        });
        let all: HashMap<_, _> = symbols.collect();
        all.contains_key("Structs").then_some(Self(all))
    }

    /// The number, or the pointer, in a variable.
    fn number(&self, memory: &Memory, name: &str) -> Option<u64> {
        memory.u64(*self.0.get(name)?)
    }
}

/// Offsets in structures, and addresses of variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// CodeCache: the heaps of code, a pointer to a list.
    pub heaps: u64,
    /// GrowableArray: its length, and where its items are.
    pub array_len: u64,
    pub array_data: u64,
    /// CodeHeap: its memory and the map of its segments.
    pub memory: u64,
    pub segments: u64,
    pub log2_segment_bytes: u64,
    /// VirtualSpace: what of it is there.
    pub low: u64,
    pub high: u64,
    /// HeapBlock: what comes before each blob.
    pub block_bytes: u64,
    pub block_length: u64,
    /// It has 64 bits; 32 in later versions.
    pub block_length_wide: bool,
    pub block_used: u64,
    /// CodeBlob.
    pub name: u64,
    pub frame_words: u64,
    pub frame_complete: u64,
    pub code: Code,
    /// Of a compiled method.
    pub method: u64,
    /// Method, ConstMethod, ConstantPool, Klass, Symbol.
    pub const_method: u64,
    pub constants: u64,
    pub name_index: u64,
    pub pool_bytes: u64,
    pub holder: u64,
    pub class_name: u64,
    pub text_length: u64,
    pub text: u64,
}

/// Where a blob's instructions begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// At this offset is a pointer.
    Pointer(u64),
    /// At this one is an offset, 32 bits (from OpenJDK 22 on).
    Offset(u64),
}

impl Layout {
    /// Reads the tables; `None` where one of the fields is missing: another machine, or another version of it.
    pub(super) fn read(memory: &Memory, table: &Table) -> Option<Self> {
        let (fields, sizes) = (fields(memory, table)?, sizes(memory, table)?);
        let first = |of: &[(&str, &str)]| {
            let mut found = of.iter();
            found.find_map(|&(class, field)| fields.get(&(class.into(), field.into())).copied())
        };
        let field = |class, name| first(&[(class, name)]);
        let header = field("HeapBlock", "_header")?;
        let length = field("HeapBlock::Header", "_length")?;
        let used = field("HeapBlock::Header", "_used")?;
        Some(Self {
            heaps: field("CodeCache", "_heaps")?,
            array_len: first(&[
                ("GrowableArrayBase", "_len"),
                ("GenericGrowableArray", "_len"),
            ])?,
            array_data: field("GrowableArray<int>", "_data")?,
            memory: field("CodeHeap", "_memory")?,
            segments: field("CodeHeap", "_segmap")?,
            log2_segment_bytes: field("CodeHeap", "_log2_segment_size")?,
            low: field("VirtualSpace", "_low")?,
            high: field("VirtualSpace", "_high")?,
            block_bytes: *sizes.get("HeapBlock")?,
            block_length: header + length,
            block_length_wide: used.abs_diff(length) >= 8,
            block_used: header + used,
            name: field("CodeBlob", "_name")?,
            frame_words: field("CodeBlob", "_frame_size")?,
            frame_complete: field("CodeBlob", "_frame_complete_offset")?,
            code: match field("CodeBlob", "_code_begin") {
                Some(pointer) => Code::Pointer(pointer),
                None => Code::Offset(field("CodeBlob", "_code_offset")?),
            },
            method: first(&[("CompiledMethod", "_method"), ("nmethod", "_method")])?,
            const_method: field("Method", "_constMethod")?,
            constants: field("ConstMethod", "_constants")?,
            name_index: field("ConstMethod", "_name_index")?,
            pool_bytes: *sizes.get("ConstantPool")?,
            holder: field("ConstantPool", "_pool_holder")?,
            class_name: field("Klass", "_name")?,
            text_length: field("Symbol", "_length")?,
            text: first(&[("Symbol", "_body"), ("Symbol", "_body[0]")])?,
        })
    }
}

/// Offsets of fields by class and name; of static ones the addresses.
fn fields(memory: &Memory, table: &Table) -> Option<HashMap<(String, String), u64>> {
    const CLASSES: [&str; 14] = [
        "CodeCache",
        "GrowableArrayBase",
        "GenericGrowableArray",
        "GrowableArray<int>",
        "CodeHeap",
        "VirtualSpace",
        "HeapBlock",
        "HeapBlock::Header",
        "CodeBlob",
        "CompiledMethod",
        "nmethod",
        "Method",
        "ConstMethod",
        "ConstantPool",
    ];
    const MORE: [&str; 2] = ["Klass", "Symbol"];
    let number = |name: &str| table.number(memory, &format!("StructEntry{name}"));
    let (class, field) = (number("TypeNameOffset")?, number("FieldNameOffset")?);
    let (is_static, offset) = (number("IsStaticOffset")?, number("OffsetOffset")?);
    let address = number("AddressOffset")?;
    let stride = number("ArrayStride")?;
    let mut found = HashMap::new();
    each(memory, table.number(memory, "Structs")?, stride, |entry| {
        let Some(name) = pointer(entry, class) else {
            return false;
        };
        let known = |name: &&String| CLASSES.iter().chain(&MORE).any(|known| known == name);
        if let Some(name) = memory.text(name).as_ref().filter(known) {
            let of_static = word(entry, is_static).is_some_and(|word| word as u32 != 0);
            let place = match of_static {
                true => word(entry, address).filter(|at| ADDRESSES.contains(at)),
                false => word(entry, offset).filter(|&at| at < LARGEST),
            };
            let field = pointer(entry, field).and_then(|at| memory.text(at));
            if let (Some(place), Some(field)) = (place, field) {
                found.insert((name.clone(), field), place);
            }
        }
        true
    })?;
    Some(found)
}

/// Sizes of classes.
fn sizes(memory: &Memory, table: &Table) -> Option<HashMap<String, u64>> {
    let number = |name: &str| table.number(memory, &format!("TypeEntry{name}"));
    let (class, size) = (number("TypeNameOffset")?, number("SizeOffset")?);
    let stride = number("ArrayStride")?;
    let mut found = HashMap::new();
    each(memory, table.number(memory, "Types")?, stride, |entry| {
        let Some(name) = pointer(entry, class) else {
            return false;
        };
        let size = word(entry, size).filter(|&size| size < LARGEST);
        if let (Some(name), Some(size)) = (memory.text(name), size) {
            found.insert(name, size);
        }
        true
    })?;
    Some(found)
}

/// Goes through a table until `take` says that it ends.
fn each(
    memory: &Memory,
    begin: u64,
    stride: u64,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Option<()> {
    if !ADDRESSES.contains(&begin) || stride == 0 || stride > STRIDE {
        return None;
    }
    let stride = stride as usize;
    let mut buffer = vec![0; stride * AT_ONCE];
    for chunk in 0..ENTRIES / AT_ONCE {
        let at = begin.checked_add((chunk * buffer.len()) as u64)?;
        let read = memory.fill(at, &mut buffer);
        for entry in read.chunks_exact(stride) {
            if !take(entry) {
                return Some(());
            }
        }
        if read.len() < stride * AT_ONCE {
            return None;
        }
    }
    None
}

fn word(entry: &[u8], offset: u64) -> Option<u64> {
    let at = usize::try_from(offset).ok()?;
    let bytes = entry.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn pointer(entry: &[u8], offset: u64) -> Option<u64> {
    word(entry, offset).filter(|to| ADDRESSES.contains(to))
}
