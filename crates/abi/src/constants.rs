//! Every constant of the header, under its C name so that a search finds both sides.

#![allow(missing_docs)] // abi/convoy_abi.h documents them

/// Declares constants and lists them by name for the comparison with the C header.
macro_rules! constants {
    ($($type:ty { $($name:ident = $value:expr,)* })*) => {
        $($(pub const $name: $type = $value;)*)*

        /// Every constant by its C name, for the comparison with the C header.
        pub const CONSTANTS: &[(&str, u64)] = &[$($((stringify!($name), $name as u64),)*)*];
    };
}

constants! {
    u64 {
        CV_SESSION_MAGIC = u64::from_le_bytes(*b"CVOYSES1"),
        CV_ARENA_MAGIC = u64::from_le_bytes(*b"CVOYARA1"),
    }
    u32 {
        CV_ABI_VERSION = 2,
    }
    u32 {
        CV_CLOCK_MONOTONIC = 0,
        CV_CLOCK_TSC = 1,
    }
    usize {
        CV_DROP_ARENA_FULL = 0,
        CV_DROP_NO_MEMORY = 1,
        CV_DROP_REENTRANT = 2,
        CV_DROP_UNREGISTERED = 3,
        CV_DROP_HELD_OVERFLOW = 4,
        CV_DROP_STACK_TRUNCATED = 5,
        CV_DROP_STACK_NO_RULE = 6,
        CV_DROP_OBJECT_TABLE_FULL = 7,
        CV_DROP_FORK_UNRECORDED = 8,
        CV_DROP_EXEC_WITHOUT_AGENT = 9,
        CV_DROP_THREAD_REUSED = 10,
        CV_DROP_SANDBOXED = 11,
        CV_DROP_EXEC_UNLOADABLE = 12,
        CV_DROP_MAX = 24,
    }
    u32 {
        CV_PROCESS_STARTING = 0,
        CV_PROCESS_RUNNING = 1,
        CV_PROCESS_EXITED = 2,
        CV_PROCESS_EXECED = 3,
    }
    usize {
        CV_ARENA_HEADER_BYTES = 4096,
        CV_WATCHED = 256,
        CV_WATCH_SETS = 8,
    }
    u32 {
        CV_BLOCK_NONE = 0,
        CV_BLOCK_THREAD = 1,
        CV_BLOCK_ENTRIES = 2,
        CV_BLOCK_WAITS = 3,
        CV_BLOCK_SITES = 4,
        CV_BLOCK_OBJECTS = 5,
        CV_BLOCK_FRAMES = 6,
        CV_BLOCK_STACKS = 7,
        CV_BLOCK_MODULES = 8,
        CV_BLOCK_INDEX = 9,
    }
    u16 {
        CV_OP_NONE = 0,
        CV_OP_MUTEX_LOCK = 1,
        CV_OP_MUTEX_TIMEDLOCK = 2,
        CV_OP_RWLOCK_RD = 3,
        CV_OP_RWLOCK_WR = 4,
        CV_OP_RWLOCK_TIMEDRD = 5,
        CV_OP_RWLOCK_TIMEDWR = 6,
        CV_OP_SPIN_LOCK = 7,
        CV_OP_OMP_LOCK = 8,
        CV_OP_OMP_CRITICAL = 9,
        CV_OP_MUTEX_TRYLOCK = 16,
        CV_OP_RWLOCK_TRYRD = 17,
        CV_OP_RWLOCK_TRYWR = 18,
        CV_OP_SPIN_TRYLOCK = 19,
        CV_OP_SEM_TRYWAIT = 20,
        CV_OP_OMP_TRYLOCK = 21,
        CV_OP_COND_WAIT = 32,
        CV_OP_COND_TIMEDWAIT = 33,
        CV_OP_BARRIER_WAIT = 34,
        CV_OP_SEM_WAIT = 35,
        CV_OP_SEM_TIMEDWAIT = 36,
        CV_OP_JOIN = 37,
        CV_OP_ONCE = 38,
        CV_OP_FUTEX_WAIT = 39,
        CV_OP_OMP_BARRIER = 40,
        CV_OP_OMP_REGION = 41,
        CV_OP_COND_SIGNAL = 48,
        CV_OP_COND_BROADCAST = 49,
        CV_OP_SEM_POST = 50,
        CV_OP_FUTEX_WAKE = 51,
        CV_OP_MAX = 64,
    }
    u16 {
        CV_ENTRY_NONE = 0,
        CV_ENTRY_COUNT = 1,
        CV_ENTRY_DETAIL = 2,
        CV_ENTRY_PAIR = 3,
    }
    usize {
        CV_HIST = 32,
        CV_HELD = 16,
        CV_LAST = 16,
        CV_CACHE = 256,
        CV_SITES = 64,
    }
    u16 {
        CV_HELD_SAMPLED = 1,
        CV_HELD_WAIT_ONLY = 2,
        CV_HELD_TIMEOUT = 4,
    }
    u32 {
        CV_ACQUIRE_MAX_NS = 1_000_000,
        CV_THREAD_FREE = 0,
        CV_THREAD_CREATED = 1,
        CV_THREAD_RUNNING = 2,
        CV_THREAD_ENDED = 3,
        CV_THREAD_FAILED = 4,
    }
    u32 {
        CV_OBJECT_UNKNOWN = 0,
        CV_OBJECT_MUTEX = 1,
        CV_OBJECT_RWLOCK = 2,
        CV_OBJECT_SPIN = 3,
        CV_OBJECT_COND = 4,
        CV_OBJECT_BARRIER = 5,
        CV_OBJECT_SEM = 6,
        CV_OBJECT_THREAD = 7,
        CV_OBJECT_ONCE = 8,
        CV_OBJECT_FUTEX = 9,
        CV_OBJECT_OMP_LOCK = 10,
        CV_OBJECT_OMP_CRITICAL = 11,
        CV_OBJECT_OMP_BARRIER = 12,
        CV_OBJECT_OMP_REGION = 13,
    }
    u32 {
        CV_MODULE_NONE = 0xffff_ffff,
        CV_FRAME_EXACT = 1,
        CV_FRAME_LAST = 2,
        CV_FRAME_NO_RULE = 4,
    }
    usize {
        CV_STACK_MAX = 64,
    }
    usize {
        CV_BPF_STACK_MAX = 16384,
        CV_BPF_KERNEL_FRAMES = 16,
        CV_BPF_COMM = 16,
        CV_BPF_NAME = 128,
        CV_BPF_REGISTERS = 16,
        CV_BPF_RED_ZONE = 128,
    }
    u8 {
        CV_BPF_SWITCH = 1,
        CV_BPF_WAKEUP = 2,
        CV_BPF_LOST = 3,
        CV_BPF_LOST_STACKS = 4,
    }
    u32 {
        CV_BPF_FORK = 16,
        CV_BPF_EXEC = 17,
        CV_BPF_EXIT = 18,
        CV_BPF_INIT = 19,
        CV_BPF_STACK = 20,
        CV_BPF_SAMPLE = 21,
    }
    u32 {
        CV_BPF_POLLS_ONE = u32::MAX,
    }
    u8 {
        CV_BPF_IOWAIT = 1,
        CV_BPF_WAKER = 2,
        CV_BPF_KERNEL = 4,
        CV_BPF_ON_CPU = 8,
        CV_BPF_OFF = 16,
        CV_BPF_HAS_REGISTERS = 32,
    }
    u64 {
        CV_TARGETS_MAGIC = u64::from_le_bytes(*b"COV_RGT1"),
        CV_TRACE_MAGIC = u64::from_le_bytes(*b"COV_TRC1"),
    }
    u32 {
        CV_TRACE_VERSION = 3,
        CV_TARGETS_ALL = 1,
        CV_TARGETS_EVERY = 2,
        CV_TARGETS_VALUES = 4,
    }
    usize {
        CV_TRACE_DROP_NO_CHUNK = 0,
        CV_TRACE_DROP_NO_BLOCKS = 1,
        CV_TRACE_DROP_NO_MEMORY = 2,
        CV_TRACE_DROP_REENTRANT = 3,
        CV_TRACE_DROP_NO_SITE = 4,
        CV_TRACE_DROP_NO_ROOM = 5,
        CV_TRACE_DROP_MAX = 16,
    }
    u32 {
        CV_CHUNK_FREE = 0,
        CV_CHUNK_OWNED = 1,
        CV_CHUNK_READY = 2,
    }
    usize {
        CV_TRACE_HEADER_BYTES = 4096,
        CV_TRACE_CHUNK_BYTES = 512 << 10,
        CV_TRACE_CHUNKS = 32,
        CV_TRACE_WORDS_MAX = 40960,
        CV_TRACE_BLOCKS_BYTES = 16 << 20,
    }
    u8 {
        CV_ACCESS_PLAIN = 0,
        CV_ACCESS_REPEAT = 1,
        CV_ACCESS_MASKED = 2,
        CV_ACCESS_LANES = 3,
        CV_ACCESS_RESULT = 4,
        CV_ACCESS_VALUE = 5,
    }
    u8 {
        CV_ACCESS_READ = 1,
        CV_ACCESS_WRITE = 2,
        CV_ACCESS_ATOMIC = 4,
        CV_ACCESS_STACK = 8,
        CV_ACCESS_FIELD = 16,
    }
    u16 {
        CV_END_RELEASED = 0,
        CV_END_WAITED = 1,
        CV_END_TOO_LONG = 2,
        CV_END_SIGNAL = 3,
        CV_END_PROCESS = 4,
        CV_END_CODE = 5,
        CV_END_LEFT = 6,
        CV_END_NO_ROOM = 7,
        CV_END_THREAD = 8,
    }
    u8 {
        CV_EVENT_BLOCK = 1,
        CV_EVENT_SYSCALL = 2,
        CV_EVENT_HOOK = 3,
        CV_EVENT_HOOK_WAIT = 4,
        CV_EVENT_PART = 5,
        CV_EVENT_UNLOCK = 6,
        CV_EVENT_REGISTERS = 7,
    }
    usize {
        CV_REGISTERS_WORDS = 9,
    }
    u64 {
        CV_ATTACHMENT_MAGIC = u64::from_le_bytes(*b"CVOYATT1"),
    }
    u32 {
        CV_ATTACHMENT_VERSION = 2,
        CV_ATTACHMENT_IDLE = 0,
        CV_ATTACHMENT_ACTIVE = 1,
        CV_ATTACHMENT_CLAIMED = 2,
    }
    usize {
        CV_ATTACH_ENTRIES = 96,
        CV_PATCH_BYTES = 5,
    }
    u64 {
        CV_EVENTS_MAGIC = u64::from_le_bytes(*b"COV_EVT1"),
    }
    u32 {
        CV_EVENTS_VERSION = 1,
    }
    usize {
        CV_EVENTS_DROP_NO_CHUNK = 0,
        CV_EVENTS_DROP_NO_ROOM = 1,
        CV_EVENTS_DROP_REENTRANT = 2,
        CV_EVENTS_DROP_NO_RECORD = 3,
        CV_EVENTS_DROP_MAX = 16,
    }
    u32 {
        CV_EVENTS_SWITCHES = 1,
        CV_EVENTS_RSEQ_FOREIGN = 2,
    }
    u32 {
        CV_EVENTS_FREE = 0,
        CV_EVENTS_OWNED = 1,
        CV_EVENTS_READY = 2,
        CV_EVENTS_TAKEN = 3,
    }
    usize {
        CV_EVENTS_HEADER_BYTES = 4096,
        CV_EVENTS_CHUNKS = 8192,
        CV_EVENTS_CHUNK_BYTES = 16 << 10,
        CV_EVENTS_STATES_BYTES = 32768,
        CV_EVENTS_WORDS = 2040,
    }
    u8 {
        CV_EV_ARG = 0x80,
        CV_EV_NO_ENTRY = 0x40,
    }
    u16 {
        CV_EV_NO_CPU = 0xffff,
    }
    u8 {
        CV_EV_ACQUIRED = 0x01,
        CV_EV_ACQUIRED_SHARED = 0x02,
        CV_EV_REQUEST = 0x03,
        CV_EV_REQUEST_SHARED = 0x04,
        CV_EV_ACQUIRED_AFTER_WAIT = 0x05,
        CV_EV_TRY_ACQUIRED = 0x06,
        CV_EV_TRY_ACQUIRED_SHARED = 0x07,
        CV_EV_TRY_FAILED = 0x88,
        CV_EV_TIMED_OUT = 0x09,
        CV_EV_RELEASED = 0x0a,
        CV_EV_WOKE = 0x0b,
        CV_EV_COND_WAIT = 0x8c,
        CV_EV_COND_WOKEN = 0x8d,
        CV_EV_SIGNAL = 0x0e,
        CV_EV_BROADCAST = 0x0f,
        CV_EV_BARRIER_ARRIVE = 0x10,
        CV_EV_BARRIER_LEAVE = 0x11,
        CV_EV_BARRIER_LEAVE_LAST = 0x12,
        CV_EV_SEM_REQUEST = 0x13,
        CV_EV_SEM_ACQUIRED = 0x14,
        CV_EV_SEM_POST = 0x15,
        CV_EV_ONCE_BEGIN = 0x16,
        CV_EV_ONCE_END = 0x17,
        CV_EV_FUTEX_WAIT = 0x18,
        CV_EV_FUTEX_WOKEN = 0x19,
        CV_EV_FUTEX_WAKE = 0x9a,
        CV_EV_CREATE = 0x9b,
        CV_EV_JOIN_BEGIN = 0x1c,
        CV_EV_JOIN_END = 0x1d,
        CV_EV_START = 0xde,
        CV_EV_END = 0x5f,
        CV_EV_PREEMPTED = 0xe0,
        CV_EV_CPU_TIME = 0xe1,
        CV_EV_LOST = 0xe2,
        CV_EV_OFF_CPU = 0xe3,
        CV_EV_TIME = 0xfe,
        CV_EV_DEFINE = 0x3f,
    }
    u64 {
        CV_CAUSAL_MAGIC = u64::from_le_bytes(*b"COV_CAU1"),
        CV_CAUSAL_CONTROL_AT = 4096,
        CV_CAUSAL_RANGES_AT = 8192,
        CV_CAUSAL_POINTS_AT = 106_496,
        CV_CAUSAL_THREADS_AT = 114_688,
        CV_CAUSAL_SAMPLES_AT = 1_163_264,
        CV_CAUSAL_BYTES = 1_425_408,
    }
    usize {
        CV_CAUSAL_PAGE = 4096,
        CV_CAUSAL_RANGES = 4096,
        CV_CAUSAL_POINTS = 64,
        CV_CAUSAL_THREADS = 4096,
        CV_CAUSAL_SAMPLES = 32_768,
        CV_CAUSAL_LOCKS = 16,
        CV_CAUSAL_TARGETS = 32,
    }
    u32 {
        CV_CAUSAL_VERSION = 4,
        CV_CAUSAL_CPU_CLOCK = 1,
        CV_CAUSAL_SIGNAL_TAKEN = 2,
        CV_CAUSAL_FIFO_BROKEN = 4,
        CV_CAUSAL_CONDITION = 8,
        CV_CAUSAL_NONE = 0,
        CV_CAUSAL_DILATE = 1,
        CV_CAUSAL_SLOW = 2,
        CV_CAUSAL_TRY = 3,
        CV_CAUSAL_ADAPTIVE = 0,
        CV_CAUSAL_SPIN = 1,
        CV_CAUSAL_FIFO = 2,
        CV_CAUSAL_SHARED = 3,
        CV_CAUSAL_UNLOCKED = 4,
        CV_CAUSAL_CODE = 1,
        CV_CAUSAL_LOCK = 2,
        CV_CAUSAL_SLEEP = 4,
        CV_CAUSAL_GROUP = 8,
        CV_CAUSAL_SAMPLED = 0,
        CV_CAUSAL_MEASURED = 1,
    }
}

/// Stable ids of the reasons why an event was not recorded, by `enum cv_events_drop`.
pub const EVENTS_DROP_IDS: &[&str] = &["no-chunk", "no-room", "reentrant", "no-record"];

/// Stable ids of the reasons why a section was not traced to its end, by `enum cv_trace_drop`.
pub const TRACE_DROP_IDS: &[&str] = &[
    "no-chunk",
    "no-blocks",
    "no-memory",
    "reentrant",
    "no-site",
    "no-room",
];

/// Stable ids of the reasons for a loss, by `enum cv_drop`.
pub const DROP_IDS: &[&str] = &[
    "arena-full",
    "no-memory",
    "reentrant",
    "unregistered",
    "held-overflow",
    "stack-truncated",
    "stack-no-rule",
    "object-table-full",
    "fork-unrecorded",
    "exec-without-agent",
    "thread-reused",
    "sandboxed",
    "exec-unloadable",
];
