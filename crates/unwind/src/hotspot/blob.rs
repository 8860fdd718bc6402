//! Blobs of code in their heaps.

use super::layout::{Code, Layout};
use super::memory::{Memory, ADDRESSES};

/// More heaps than a machine has: it has three.
const HEAPS: i32 = 16;
/// Largest frame, and largest segment, that are believed.
const FRAME_WORDS: i32 = 1 << 16;
const LOG2_SEGMENT: i32 = 20;
/// Steps back through the map of segments: each byte leads back by 253 at most, and no blob is larger than 16 MB.
const STEPS: usize = 4096;
/// How blobs of stubs are called: with a number behind it.
const STUBS: &str = "StubRoutines";
/// Of the map of segments: nothing is there.
const FREE: u8 = 0xff;

/// Code that belongs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
    /// From here on its frame is there.
    pub(crate) complete: u64,
    pub(crate) kind: Kind,
}

/// How its caller is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Frames of that many bytes, return address and frame pointer of the caller included.
    Fixed(u64),
    /// The interpreter: frames by frame pointer, which grow.
    Interpreter,
    /// Stubs for mathematics and copies of arrays, most of which make a small frame with a frame pointer.
    Stub,
    /// Glue that makes frames with a frame pointer, or none.
    Other,
}

impl Blob {
    pub(crate) fn holds(&self, pc: u64) -> bool {
        (self.lo..self.hi).contains(&pc)
    }
}

/// The heaps of code of a machine.
#[derive(Debug)]
pub(super) struct Heaps(Vec<Heap>);

#[derive(Debug)]
struct Heap {
    address: u64,
    log2_segment_bytes: i32,
}

impl Heaps {
    pub(super) fn read(memory: &Memory, layout: &Layout) -> Option<Self> {
        let list = memory.pointer(layout.heaps)?;
        let length = memory.i32(list + layout.array_len)?;
        let data = memory.pointer(list + layout.array_data)?;
        let heap = |at: i32| {
            let address = memory.pointer(data + 8 * at as u64)?;
            Some(Heap {
                address,
                log2_segment_bytes: memory.i32(address + layout.log2_segment_bytes)?,
            })
        };
        let all: Vec<Heap> = (0..length.clamp(0, HEAPS)).filter_map(heap).collect();
        (!all.is_empty()).then_some(Self(all))
    }

    /// The blob at an address, and its name.
    pub(super) fn blob(&self, memory: &Memory, layout: &Layout, pc: u64) -> Option<(Blob, String)> {
        let block = self
            .0
            .iter()
            .find_map(|heap| heap.block(memory, layout, pc))?;
        let at = block.0 + layout.block_bytes;
        let name = memory.text(memory.pointer(at + layout.name)?)?;
        let frame_words = memory.i32(at + layout.frame_words)?;
        let complete = memory.i32(at + layout.frame_complete)?;
        let code = match layout.code {
            Code::Pointer(offset) => memory.pointer(at + offset)?,
            Code::Offset(offset) => at + u64::try_from(memory.i32(at + offset)?).ok()?,
        };
        let kind = match frame_words {
            _ if name == "Interpreter" => Kind::Interpreter,
            2..FRAME_WORDS => Kind::Fixed(8 * frame_words as u64),
            _ if name.starts_with(STUBS) => Kind::Stub,
            _ => Kind::Other,
        };
        let blob = Blob {
            lo: block.0,
            hi: block.1,
            complete: code + u64::try_from(complete).unwrap_or(0),
            kind,
        };
        let name = match name.contains("nmethod") {
            true => method(memory, layout, memory.pointer(at + layout.method)?)?,
            false => name,
        };
        Some((blob, name))
    }
}

impl Heap {
    /// First and last address of the block that holds this one.
    fn block(&self, memory: &Memory, layout: &Layout, pc: u64) -> Option<(u64, u64)> {
        let space = self.address + layout.memory;
        let (low, high) = (
            memory.u64(space + layout.low)?,
            memory.u64(space + layout.high)?,
        );
        let log2 = u32::try_from(self.log2_segment_bytes).ok()?;
        if !(low..high).contains(&pc) || self.log2_segment_bytes > LOG2_SEGMENT {
            return None;
        }
        // Each segment says how far back its block begins, in one step or in several.
        let map = memory.pointer(self.address + layout.segments + layout.low)?;
        let mut segment = (pc - low) >> log2;
        for _ in 0..STEPS {
            match memory.u8(map + segment)? {
                FREE => return None,
                0 => {
                    let lo = low + (segment << log2);
                    let length = memory.u64(lo + layout.block_length)?;
                    let segments = match layout.block_length_wide {
                        true => length,
                        false => length & u64::from(u32::MAX),
                    };
                    let hi = lo.checked_add(segments.checked_mul(1 << log2)?)?;
                    let used = memory.u8(lo + layout.block_used)? != 0;
                    return (used && hi <= high && pc < hi).then_some((lo, hi));
                }
                back => segment = segment.checked_sub(u64::from(back))?,
            }
        }
        None
    }
}

/// The name of a method with its class: `java.util.ArrayList.add`.
pub(super) fn method(memory: &Memory, layout: &Layout, method: u64) -> Option<String> {
    if !ADDRESSES.contains(&method) {
        return None;
    }
    let constant = memory.pointer(method + layout.const_method)?;
    let pool = memory.pointer(constant + layout.constants)?;
    let index = memory.u16(constant + layout.name_index)?;
    let name = memory.pointer(pool + layout.pool_bytes + 8 * u64::from(index))?;
    let class = memory.pointer(memory.pointer(pool + layout.holder)? + layout.class_name)?;
    let text = |symbol: u64| {
        let length = memory.u16(symbol + layout.text_length)?;
        memory.text_of(symbol + layout.text, length)
    };
    let (class, name) = (text(class)?, text(name)?);
    // Of a class that was made at run time, without the address that tells it from others of the same.
    let class = class.split_once('+').map_or(&*class, |(class, _)| class);
    let printable = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_control());
    (printable(class) && printable(&name)).then(|| format!("{}.{name}", class.replace('/', ".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Structures of a machine, in this very process.
    #[repr(C, align(64))]
    struct Machine {
        list: List,
        items: [*const Heap; 1],
        heap: Heap,
        map: [u8; 16],
        code: [Segment; 16],
        method: [*const ConstMethod; 1],
        constant: ConstMethod,
        pool: Pool,
        holder: [*const Text; 1],
        class: Text,
        name: Text,
        kinds: [[u8; 17]; 3],
    }

    #[repr(C)]
    struct List {
        len: i32,
        data: *const *const Heap,
    }

    #[repr(C)]
    struct Heap {
        low: *const Segment,
        high: *const Segment,
        map_low: *const u8,
        log2: i32,
    }

    #[repr(C)]
    struct ConstMethod {
        constants: *const Pool,
        name_index: u16,
    }

    #[repr(C)]
    struct Pool {
        holder: *const [*const Text; 1],
        entries: [*const Text; 3],
    }

    #[repr(C)]
    struct Text {
        length: u16,
        text: [u8; 30],
    }

    /// 128 bytes: a block's header and its blob, or code.
    type Segment = [u64; 16];

    const LAYOUT: Layout = Layout {
        heaps: 0, // set by each test
        array_len: 0,
        array_data: 8,
        memory: 0,
        segments: 16,
        log2_segment_bytes: 24,
        low: 0,
        high: 8,
        block_bytes: 16,
        block_length: 0,
        block_length_wide: true,
        block_used: 8,
        name: 0,
        frame_words: 8,
        frame_complete: 12,
        code: Code::Pointer(16),
        method: 24,
        const_method: 0,
        constants: 0,
        name_index: 8,
        pool_bytes: 8,
        holder: 0,
        class_name: 0,
        text_length: 0,
        text: 2,
    };

    fn text(of: &str) -> Text {
        let mut text = [0; 30];
        text[..of.len()].copy_from_slice(of.as_bytes());
        let length = of.len() as u16;
        Text { length, text }
    }

    /// The longest one, and the zero that ends it.
    fn kind(of: &str) -> [u8; 17] {
        let mut kind = [0; 17];
        kind[..of.len()].copy_from_slice(of.as_bytes());
        kind
    }

    /// A method of three segments, the interpreter of one, a stub of one; the rest is free.
    fn machine() -> Box<Machine> {
        use std::ptr::null;
        let mut m = Box::new(Machine {
            list: List {
                len: 1,
                data: null(),
            },
            items: [null()],
            heap: Heap {
                low: null(),
                high: null(),
                map_low: null(),
                log2: 7,
            },
            map: [FREE; 16],
            code: [[0; 16]; 16],
            method: [null()],
            constant: ConstMethod {
                constants: null(),
                name_index: 2,
            },
            pool: Pool {
                holder: null(),
                entries: [null(); 3],
            },
            holder: [null()],
            class: text("bank/Ledger"),
            name: text("post"),
            kinds: [
                kind("nmethod"),
                kind("Interpreter"),
                kind("StubRoutines (1)"),
            ],
        });
        let at = |of: *const u8| of as u64;
        m.list.data = m.items.as_ptr();
        m.items[0] = &raw const m.heap;
        m.heap.low = m.code.as_ptr();
        m.heap.high = m.code.as_ptr_range().end;
        m.heap.map_low = m.map.as_ptr();
        m.method[0] = &raw const m.constant;
        m.constant.constants = &raw const m.pool;
        m.pool.holder = &raw const m.holder;
        m.pool.entries[2] = &raw const m.name;
        m.holder[0] = &raw const m.class;
        let blobs = [(1, 3, 0, 6), (4, 1, 1, 0), (6, 1, 2, 0)];
        for (first, segments, kind, frame_words) in blobs {
            m.map[first..first + segments].copy_from_slice(&[0, 1, 2][..segments]);
            let begins = at(m.code[first].as_ptr().cast());
            let complete = 14_u64;
            let method = at(m.method.as_ptr().cast());
            let header = [segments as u64, 1];
            let name = at(m.kinds[kind].as_ptr());
            let blob = [name, frame_words | complete << 32, begins + 64, method];
            m.code[first][..2].copy_from_slice(&header);
            m.code[first][2..6].copy_from_slice(&blob);
        }
        m
    }

    fn found(machine: &Machine, segment: usize, offset: u64) -> Option<(Blob, String)> {
        let memory = Memory::of(std::path::Path::new("/proc/self")).unwrap();
        let list = [&raw const machine.list];
        let layout = Layout {
            heaps: list.as_ptr() as u64,
            ..LAYOUT
        };
        let heaps = Heaps::read(&memory, &layout).unwrap();
        let pc = machine.code[segment].as_ptr() as u64 + offset;
        heaps.blob(&memory, &layout, pc)
    }

    #[test]
    fn a_method_is_found_from_anywhere_in_it() {
        let machine = machine();
        let first = machine.code[1].as_ptr() as u64;
        for (segment, offset) in [(1, 70), (2, 0), (3, 127)] {
            let (blob, name) = found(&machine, segment, offset).unwrap();
            assert_eq!(name, "bank.Ledger.post");
            assert_eq!((blob.lo, blob.hi), (first, first + 3 * 128));
            assert_eq!(blob.kind, Kind::Fixed(48));
            assert_eq!(blob.complete, first + 64 + 14);
        }
    }

    #[test]
    fn what_is_no_method_is_called_as_the_machine_does() {
        let machine = machine();
        let (blob, name) = found(&machine, 4, 100).unwrap();
        assert_eq!(
            (blob.kind, name.as_str()),
            (Kind::Interpreter, "Interpreter")
        );
        let (blob, name) = found(&machine, 6, 1).unwrap();
        assert_eq!((blob.kind, name.as_str()), (Kind::Stub, "StubRoutines (1)"));
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let mut machine = machine();
        assert_eq!(found(&machine, 0, 0), None, "free");
        assert_eq!(found(&machine, 15, 4096), None, "behind the heap");
        machine.code[4][1] = 0;
        assert_eq!(found(&machine, 4, 0), None, "not used");
        machine.code[6][0] = 1 << 60;
        assert_eq!(found(&machine, 6, 0), None, "too long");
        machine.map[2] = 200;
        assert_eq!(found(&machine, 2, 0), None, "leads out of the map");
        machine.name.length = 0;
        assert_eq!(found(&machine, 1, 0), None, "no name");
    }
}
