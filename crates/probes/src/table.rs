//! Layout of the table that probes count into, in the probed process: `runtime/table.h` has the
//! same in C.

use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use crate::probe::BUCKETS;

/// Marks a table in use.
pub const MAGIC: u64 = 0x7362_6f72_7076_6f63;
/// Rows.
pub const ROWS: usize = crate::probe::ROWS as usize;
/// No row.
pub const NONE: u16 = 0xffff;
/// Rows that one function may count into.
pub const FUNCTION_ROWS: usize = 8;
/// Functions.
pub const FUNCTIONS: usize = 65536;
/// Timed calls of a thread that may be open at once.
pub const DEPTH: usize = 4096;
/// File descriptors of a thread that are told apart.
pub const FILES: usize = 512;
/// Of the number of a function that is left: by a jump to another one.
pub const LEAVES_BY_JUMP: u32 = 0x8000_0000;

/// Key of a column that was never used.
pub const KEY_FREE: u64 = 0;
/// Key of a column that was used before, and may be taken.
pub const KEY_CLEARED: u64 = 1;
/// Key of a column whose thread has ended.
pub const KEY_RETIRED: u64 = 2;

/// Gate of a row: the thread is inside the function of [`Row::within`].
pub const WITHIN: u8 = 1;
/// Gate of a row: the call returns into [`Row::caller_from`]..[`Row::caller_to`].
pub const CALLER: u8 = 2;
/// Gate of a row: the thread holds a lock that the agent watches.
pub const HOLDING: u8 = 4;

/// What is counted in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Row {
    /// Row that must be open.
    pub within: u16,
    /// Changes with every insertion.
    pub generation: u16,
    /// A call is counted if all of them are open.
    pub gates: u8,
    /// Bytes that a call asks for: [`crate::Bytes`], 0 = none.
    pub bytes: u8,
    /// What a call does to the file descriptor that is its first argument: [`crate::Io`], 0 = none.
    pub io: u8,
    /// Which of the agent's counts of held locks.
    pub held_slot: u8,
    /// Counts of another epoch are out of date.
    pub held_epoch: u32,
    /// Rows of one group count into the same files.
    pub io_group: u32,
    /// Of the thread's counts of held locks, from its thread pointer.
    pub held_offset: i64,
    /// First address that a call must return to.
    pub caller_from: u64,
    /// Behind the last one.
    pub caller_to: u64,
    /// 0.
    pub reserved: [u64; 3],
}

/// Of a row of a function: its exits are patched, so that calls can be timed.
pub const TIMED: u16 = 0x8000;

/// Of a row of an [`Entry`]: the call was open when its timer came, so that its length is not
/// known.
pub const NOTED: u16 = 0x4000;

/// Rows that a function counts into, each perhaps with [`TIMED`], up to the first [`NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct FunctionRows {
    /// The rows.
    pub row: [u16; FUNCTION_ROWS],
}

/// The beginning of the table.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Head {
    /// [`MAGIC`]; 0 in a child made by fork.
    pub magic: u64,
    /// Columns, a power of two.
    pub columns: u64,
    /// 64 - log2(columns).
    pub hash_shift: u64,
    /// Of a thread's number from its thread pointer.
    pub tid_offset: i64,
    /// Nanoseconds, 32 bits of them behind the point.
    pub ns_per_tick: u64,
    /// Probes that found no free column.
    pub no_room: u64,
    /// Address of a `struct rseq_cs` of a range that is never executed; 0 = no CPU clock.
    pub descriptor: u64,
    /// Of the rseq area from the thread pointer.
    pub rseq_offset: i64,
    /// 0.
    pub reserved: [u64; 8],
}

/// What a thread did in a row. Times in ticks of the time stamp counter, CPU times in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Value {
    /// Entries.
    pub calls: u64,
    /// Of outermost calls that have ended.
    pub wall: u64,
    /// Without timed functions called from there.
    pub own_wall: u64,
    /// CPU time.
    pub cpu: u64,
    /// CPU time without timed functions called from there.
    pub own_cpu: u64,
    /// Start of the outermost open call, 0 = none.
    pub since: u64,
    /// CPU time at that start.
    pub since_cpu: u64,
    /// Open calls.
    pub depth: u32,
    /// Calls that were not measured.
    pub skipped: u32,
}

/// The calls of a thread in a row that have returned, recursive ones too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Returned {
    /// Ticks of the time stamp counter, in all.
    pub wall: u64,
    /// Calls of 2^n to 2^(n+1) ns.
    pub buckets: [u32; BUCKETS],
}

impl Returned {
    /// None has.
    pub const NONE: Self = Self {
        wall: 0,
        buckets: [0; BUCKETS],
    };
}

/// The beginning of a column.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct ColumnHead {
    /// Stack pointer of the probe that runs, 0 = none.
    pub busy: u64,
    /// The thread.
    pub tid: u32,
    /// Open calls in all rows.
    pub entries: u32,
    /// Calls that were left without a return.
    pub abandoned: u64,
    /// 1: it runs on several stacks.
    pub has_switched: u32,
    /// 1: the CPU clock has a base.
    pub armed: u32,
    /// Base of the CPU clock: CPU time.
    pub base_cpu: u64,
    /// Base of the CPU clock: ticks.
    pub base_ticks: u64,
    /// Reads of the CPU clock that asked the kernel.
    pub cpu_resyncs: u64,
    /// Calls on file descriptors for which there was no [`File`].
    pub lost_files: u64,
    /// 0.
    pub reserved: [u64; 8],
}

/// What a thread did to a file descriptor in the rows of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct File {
    /// [`File::group`] and [`File::descriptor`]; 0 = free.
    pub key: u32,
    /// 0.
    pub reserved: u32,
    /// Calls that read.
    pub reads: u64,
    /// Bytes that they have read.
    pub read_bytes: u64,
    /// Calls that write.
    pub writes: u64,
    /// Bytes that they have written.
    pub write_bytes: u64,
    /// Other calls.
    pub others: u64,
    /// Time in all of them without the CPU, nanoseconds; without a CPU clock all time.
    pub wait_ns: u64,
    /// 0.
    pub reserved_tail: u64,
}

/// Groups of rows that count into files.
pub const IO_GROUPS: u32 = 256;

impl File {
    /// The group of rows.
    pub fn group(&self) -> u32 {
        self.key >> 24
    }

    /// The file descriptor; `None` = it is free.
    pub fn descriptor(&self) -> Option<u32> {
        (self.key & 0xff_ffff).checked_sub(1)
    }
}

const PAGE: u64 = 4096;

/// An open call of a timed function in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Entry {
    /// Where its return address is.
    pub rsp: u64,
    /// Its start, ticks.
    pub start: u64,
    /// CPU time at its start, ns.
    pub start_cpu: u64,
    /// Time in timed functions that it has called.
    pub children: u64,
    /// CPU time there.
    pub children_cpu: u64,
    /// File descriptor, of a row that counts into files.
    pub descriptor: u64,
    /// The function's number.
    pub function: u32,
    /// The row, perhaps with [`NOTED`].
    pub row: u16,
    /// The row's generation.
    pub generation: u16,
}

/// Offset of [`Row`] `row`.
pub fn row_at(row: u32) -> u64 {
    (size_of::<Head>() + row as usize * size_of::<Row>()) as u64
}

/// Offset of [`FunctionRows`] `function`.
pub fn function_at(function: u32) -> u64 {
    let rows = ROWS * size_of::<Row>();
    (size_of::<Head>() + rows + function as usize * size_of::<FunctionRows>()) as u64
}

/// The column that a thread looks at first, by its thread pointer.
pub fn first_column(columns: u64, thread_pointer: u64) -> u64 {
    let hash = thread_pointer.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash.checked_shr(64 - columns.trailing_zeros()).unwrap_or(0)
}

/// Offset of the keys, eight bytes each.
pub fn keys_at() -> u64 {
    function_at(FUNCTIONS as u32)
}

/// Offset of a column.
pub fn column_at(columns: u64, column: u64) -> u64 {
    (keys_at() + columns * 8).next_multiple_of(PAGE) + column * column_bytes()
}

/// Bytes of a column.
pub fn column_bytes() -> u64 {
    (files_at() + (FILES * size_of::<File>()) as u64).next_multiple_of(PAGE)
}

/// Offset of the bytes that calls in a row have asked for, a `u64`, in its column.
pub fn bytes_at(row: u32) -> u64 {
    returned_at(ROWS as u32) + u64::from(row) * 8
}

/// Offset of the [`File`]s in their column, [`FILES`] of them.
pub fn files_at() -> u64 {
    bytes_at(ROWS as u32)
}

/// Offset of the [`Entry`]s in their column, [`DEPTH`] of them, the outermost first.
pub fn entries_at() -> u64 {
    size_of::<ColumnHead>() as u64
}

/// Offset of a [`Value`] in its column.
pub fn value_at(row: u32) -> u64 {
    entries_at() + (DEPTH * size_of::<Entry>()) as u64 + u64::from(row) * size_of::<Value>() as u64
}

/// Offset of a [`Returned`] in its column.
pub fn returned_at(row: u32) -> u64 {
    value_at(ROWS as u32) + u64::from(row) * size_of::<Returned>() as u64
}

/// Bytes of a table.
pub fn table_bytes(columns: u64) -> u64 {
    column_at(columns, columns)
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn a_file_tells_its_group_and_descriptor() {
        let file = |key| File {
            key,
            ..File::new_zeroed()
        };
        let of = |key| (file(key).group(), file(key).descriptor());
        assert_eq!(of(0), (0, None));
        assert_eq!(of(1), (0, Some(0)));
        assert_eq!(of(0x0300_0008), (3, Some(7)));
    }

    #[test]
    fn layout_is_that_of_the_runtime() {
        // runtime.c asserts the same.
        assert_eq!((row_at(0), size_of::<Row>()), (128, 64));
        assert_eq!((size_of::<FunctionRows>(), size_of::<Value>()), (16, 64));
        assert_eq!(keys_at(), 128 + 1024 * 64 + 65536 * 16);
        assert_eq!((size_of::<ColumnHead>(), size_of::<Entry>()), (128, 56));
        assert_eq!(value_at(0), 128 + 4096 * 56);
        assert_eq!(returned_at(0), value_at(0) + 1024 * 64);
        assert_eq!(size_of::<Returned>(), 264);
        assert_eq!(bytes_at(0), returned_at(0) + 1024 * 264);
        assert_eq!(
            (files_at(), size_of::<File>()),
            (bytes_at(0) + 1024 * 8, 64)
        );
        assert_eq!(column_bytes() % PAGE, 0);
        assert_eq!(column_at(64, 0) % PAGE, 0);
    }
}
