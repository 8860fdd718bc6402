/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The layouts that the agent (C, inside the profiled program) and convoy (Rust, outside it) share.
 *
 * Two files in one session directory on tmpfs:
 *
 *   session       written by convoy before the program starts, read by every agent, then constant
 *   p<pid>.<n>    an arena: written by the agent of one process image, read by convoy at any time,
 *                 also while the program runs and after it was killed
 *
 * An arena is a header (one page) followed by a gapless sequence of blocks, each with its own header, so a
 * reader needs no pointers to find everything: it walks from `header_bytes` to `bump`. Nothing in an
 * arena is ever freed or moved. Every number a reader meets must be treated as hostile: the
 * profiled program can overwrite any of it.
 *
 * Who writes what: unless a field says otherwise, a thread's own structures (its struct cv_thread, its
 * entry, wait and site blocks) are written by that thread alone, without atomics; shared ones
 * (header, objects, frames, stacks, modules) are written with atomics. A reader of a running
 * process sees each aligned word whole, but two words of a record may be of different ages.
 *
 * Units: every `_ns` is CLOCK_MONOTONIC nanoseconds, made from the cycle counter by the session's
 * clock. Offsets of type cv_ref are in units of 64 bytes from the start of the arena; 0 = none.
 *
 * Bump CV_ABI_VERSION for every change of a layout or of a meaning. crates/abi mirrors this file
 * and asserts the same sizes and offsets.
 */
#ifndef CONVOY_ABI_H
#define CONVOY_ABI_H

#include <stddef.h>
#include <stdint.h>

#define CV_SESSION_MAGIC 0x31534553594f5643ull /* "CVOYSES1" */
#define CV_ARENA_MAGIC 0x31415241594f5643ull   /* "CVOYARA1" */
#define CV_ABI_VERSION 2u

typedef uint32_t cv_ref; /* byte offset / 64 */

/* ---- session ---------------------------------------------------------------------------- */

enum cv_clock_kind {
	CV_CLOCK_MONOTONIC = 0, /* clock_gettime; the safe choice */
	CV_CLOCK_TSC = 1,       /* invariant, synchronised time stamp counter */
};

struct cv_session {
	uint64_t magic;
	uint32_t version;
	uint32_t clock_kind;    /* enum cv_clock_kind */
	uint64_t clock_base_ticks;
	uint64_t clock_base_ns; /* ns = base_ns + ((ticks - base_ticks) * mult >> 32), 128-bit product */
	uint64_t clock_mult;
	uint64_t arena_bytes;   /* address space to reserve per process; pages are used as needed */
	uint32_t sample_period; /* one operation in this many is sampled, at random, default 64; later ones of a thread more rarely */
	uint32_t stack_depth;   /* frames kept, at most CV_STACK_MAX */
	uint32_t max_threads;   /* thread records per process; later threads reuse ended ones */
	uint32_t flags;
	uint64_t reserved[8];
};
_Static_assert(sizeof(struct cv_session) == 128, "abi v1");

/* ---- arena header ----------------------------------------------------------------------- */

/* Everything that was lost or refused, by reason. Relaxed atomic adds by any thread. */
enum cv_drop {
	CV_DROP_ARENA_FULL = 0,     /* no room left: the record was not made */
	CV_DROP_NO_MEMORY,          /* tmpfs full: the arena stopped growing */
	CV_DROP_REENTRANT,          /* operation in a signal handler that interrupted a hook's own table work */
	CV_DROP_UNREGISTERED,       /* operation of a thread that has no record (not made by pthread_create) */
	CV_DROP_HELD_OVERFLOW,      /* more than CV_HELD locks held and timed at once: the oldest hold is not recorded */
	CV_DROP_STACK_TRUNCATED,    /* stack deeper than stack_depth, or cut at the thread's stack end */
	CV_DROP_STACK_NO_RULE,      /* frame without unwind information: the outer frames are missing */
	CV_DROP_OBJECT_TABLE_FULL,  /* object not named */
	CV_DROP_FORK_UNRECORDED,    /* a fork child could not get an arena of its own (written by parent's map) */
	CV_DROP_EXEC_WITHOUT_AGENT, /* an exec whose environment lacks the agent: that program is not seen */
	CV_DROP_THREAD_REUSED,      /* a thread shares the record of an ended one (more than max_threads) */
	CV_DROP_SANDBOXED,          /* the program gave up system calls: no growth, no CPU times from then on */
	CV_DROP_EXEC_UNLOADABLE,    /* an exec of a program that cannot load the agent: static, musl, 32-bit, foreign */
	CV_DROP_MAX = 24,
};

enum cv_process_state {
	CV_PROCESS_STARTING = 0,
	CV_PROCESS_RUNNING = 1,
	CV_PROCESS_EXITED = 2, /* exit() or _exit() was reached; end_ns is set */
	CV_PROCESS_EXECED = 3, /* execve() was called and, as no later write follows, succeeded */
};

#define CV_ARENA_HEADER_BYTES 4096u

/* Locks that convoy watches at a time: places of a table with open addressing. */
#define CV_WATCHED 256u
/* Sets of locks that it tells apart: `convoy live`, focus `holding`. */
#define CV_WATCH_SETS 8u

/* What a thread holds of the watched locks, in its own thread-local storage: probes of convoy's
 * read it in the same thread. */
struct cv_holding {
	uint32_t epoch;    /* cv_arena.watch_epoch: counts of another one are out of date */
	uint32_t reserved;
	uint8_t count[CV_WATCH_SETS]; /* acquisitions that are not released yet, by set */
};
_Static_assert(sizeof(struct cv_holding) == 16, "abi v1");

struct cv_arena {
	uint64_t magic;         /* written last by the agent: an arena without it is not ready */
	uint32_t version;
	uint32_t header_bytes;  /* CV_ARENA_HEADER_BYTES */
	uint64_t size_bytes;    /* of the mapping */
	uint64_t bump;          /* atomic: first byte not yet given to a block */
	uint32_t pid;
	uint32_t ppid;
	uint64_t start_ns;      /* agent ready in this process image */
	uint64_t end_ns;        /* 0: not seen to end */
	uint32_t state;         /* enum cv_process_state */
	uint32_t exit_status;   /* argument of exit/_exit where seen */
	uint32_t threads;       /* atomic: thread records made */
	uint32_t threads_started; /* atomic: threads registered, including reused records */
	uint32_t inline_mutex;  /* 1: plain mutexes take the agent's inline path; 0: self-test refused it */
	uint32_t argc_bytes;    /* bytes used in cmdline */
	uint64_t agent_base;    /* load address of the agent's text, to skip its frames */
	uint64_t agent_end;
	uint64_t drops[CV_DROP_MAX];
	char exe[512];          /* readlink of /proc/self/exe */
	char cmdline[1024];     /* NUL-separated, cut */
	int64_t holding_offset; /* of a thread's struct cv_holding, from its thread pointer; 0: not kept */
	uint32_t watch_epoch;   /* atomic, written by convoy; 0 = no lock is watched */
	uint32_t reserved0;
	uint64_t watched[CV_WATCHED]; /* atomic, written by convoy: address << 8 | a bit for each set; 0 = free */
	char reserved[4096 - 96 - CV_DROP_MAX * 8 - 512 - 1024 - 16 - CV_WATCHED * 8];
};
_Static_assert(sizeof(struct cv_arena) == CV_ARENA_HEADER_BYTES, "abi v1");
_Static_assert(offsetof(struct cv_arena, drops) == 96, "abi v1");
_Static_assert(offsetof(struct cv_arena, holding_offset) == 1824, "abi v2");

/* ---- blocks ----------------------------------------------------------------------------- */

enum cv_block_kind {
	CV_BLOCK_NONE = 0,   /* reserved but not yet initialised: the reader skips `bytes` if set, else stops */
	CV_BLOCK_THREAD = 1, /* one struct cv_thread */
	CV_BLOCK_ENTRIES,    /* struct cv_entry[] of thread `owner` */
	CV_BLOCK_WAITS,      /* struct cv_wait_detail[] of thread `owner` */
	CV_BLOCK_SITES,      /* struct cv_site[]: a grown site table of thread `owner`; replaces the older one */
	CV_BLOCK_OBJECTS,    /* struct cv_object[] */
	CV_BLOCK_FRAMES,     /* struct cv_frame[] */
	CV_BLOCK_STACKS,     /* packed uint32: count, then that many frame ids, leaf first; 0 = unused rest */
	CV_BLOCK_MODULES,    /* struct cv_module[] */
	CV_BLOCK_INDEX,      /* a hash index private to the agent: skipped by readers */
};

struct cv_block {           /* 64 bytes, at a multiple of 64 */
	uint32_t kind;      /* enum cv_block_kind; atomic release store after the other fields */
	uint32_t item_bytes;
	uint64_t bytes;     /* of the whole block, header included; a multiple of 64 */
	uint32_t used;      /* items in use (atomic for shared blocks); bytes for STACKS */
	uint32_t owner;     /* thread record index, or ~0 for shared blocks */
	uint32_t first_id;  /* FRAMES: id of the first item. STACKS, OBJECTS: unused, ids are cv_refs */
	uint32_t reserved[9];
};
_Static_assert(sizeof(struct cv_block) == 64, "abi v1");

/* ---- operations ------------------------------------------------------------------------- */

/* What was called. The family of the object follows from it. */
enum cv_op {
	CV_OP_NONE = 0,
	/* blocking acquires of a lock */
	CV_OP_MUTEX_LOCK = 1,     /* pthread_mutex_lock, mtx_lock */
	CV_OP_MUTEX_TIMEDLOCK,    /* timedlock, clocklock, mtx_timedlock */
	CV_OP_RWLOCK_RD,
	CV_OP_RWLOCK_WR,
	CV_OP_RWLOCK_TIMEDRD,
	CV_OP_RWLOCK_TIMEDWR,
	CV_OP_SPIN_LOCK,
	CV_OP_OMP_LOCK,           /* omp_set_lock, omp_set_nest_lock */
	CV_OP_OMP_CRITICAL,       /* GOMP_critical_start, GOMP_critical_name_start, GOMP_atomic_start */
	/* non-blocking ones */
	CV_OP_MUTEX_TRYLOCK = 16,
	CV_OP_RWLOCK_TRYRD,
	CV_OP_RWLOCK_TRYWR,
	CV_OP_SPIN_TRYLOCK,
	CV_OP_SEM_TRYWAIT,
	CV_OP_OMP_TRYLOCK,
	/* waits for an event */
	CV_OP_COND_WAIT = 32,
	CV_OP_COND_TIMEDWAIT,     /* timedwait, clockwait, cnd_timedwait */
	CV_OP_BARRIER_WAIT,
	CV_OP_SEM_WAIT,
	CV_OP_SEM_TIMEDWAIT,
	CV_OP_JOIN,               /* object: the joined thread's pthread_t */
	CV_OP_ONCE,
	CV_OP_FUTEX_WAIT,         /* syscall(SYS_futex, ...): C++20, Rust, own locks; only blocking calls are seen */
	CV_OP_OMP_BARRIER,        /* GOMP_barrier and the barriers that end loops and sections */
	CV_OP_OMP_REGION,         /* end of a parallel region: object is the outlined function */
	/* wakes; `n` counts calls, `failed` those with nobody waiting where that can be told */
	CV_OP_COND_SIGNAL = 48,
	CV_OP_COND_BROADCAST,
	CV_OP_SEM_POST,
	CV_OP_FUTEX_WAKE,
	CV_OP_MAX = 64,
};

/* ---- per-thread records ----------------------------------------------------------------- */

/* Exact counters of one (object, call site) pair, in the thread's direct-mapped cache. Readers add
 * what is here to the COUNT entries. */
struct cv_slot {
	uint64_t obj;    /* 0 = free */
	uint64_t ra;     /* return address of the hook: the call site */
	uint64_t n;      /* calls: acquisitions for blocking acquires, all calls for trylocks and others */
	uint32_t failed; /* trylocks that found the lock taken; timeouts of timed operations */
	uint16_t op;     /* enum cv_op */
	uint16_t flags;
};
_Static_assert(sizeof(struct cv_slot) == 32, "abi v1");

/* Calls of a site that found their cache slot taken by another pair: exact per site and thread,
 * spread over objects by the COUNT entries' `sampled`. Open addressing by `ra`; ra 0 = free. */
struct cv_site {
	uint64_t ra;
	uint64_t n;
	uint32_t failed;
	uint16_t op;
	uint16_t flags;
	uint32_t frame; /* frame id of ra, 0 until known */
	uint32_t reserved;
};
_Static_assert(sizeof(struct cv_site) == 32, "abi v1");

enum cv_entry_kind {
	CV_ENTRY_NONE = 0,
	CV_ENTRY_COUNT = 1,  /* (obj, frame id): exact counts evicted from the cache */
	CV_ENTRY_DETAIL = 2, /* (obj, stack ref): samples, holds, waits */
	CV_ENTRY_PAIR = 3,   /* (obj, stack ref, peer): waits of this site that this peer ended or caused */
};

struct cv_entry {
	uint64_t obj;
	uint32_t site;       /* COUNT: frame id. DETAIL, PAIR: stack ref, the waiter's stack */
	uint16_t kind;       /* enum cv_entry_kind; written last when an entry is made */
	uint16_t op;
	union {
		struct {
			uint64_t n;
			uint64_t failed;
			uint64_t sampled; /* sampled calls counted in cv_site.n, not here: weight for spreading */
			uint64_t reserved[3];
		} count;
		struct {
			uint32_t samples;        /* drawn calls, contended or not; one drawn at n times the period counts n */
			uint32_t acquire_n;      /* uncontended samples with a timed acquire */
			uint64_t acquire_sum_ns; /* cost of the acquire itself, cache transfer included */
			uint32_t hold_n;         /* holds timed: every contended one and the sampled ones */
			uint32_t hold_sampled_n; /* of these, sampled uncontended ones (unbiased for those) */
			uint64_t hold_sum_ns;
			uint64_t hold_sampled_sum_ns;
			uint32_t hold_max_us;
			cv_ref wait;             /* struct cv_wait_detail, 0 until the first wait */
		} detail;
		struct {
			uint64_t n;
			uint64_t wait_sum_ns;
			uint64_t wait_max_ns;
			uint32_t peer_tid;    /* holder when the wait began, or the thread that woke; 0 = unknown */
			uint32_t peer_frame;  /* where the holder had acquired (frame id of the call), 0 = unknown */
			uint32_t peer_stack;  /* stack ref: where the peer released, signalled or posted; 0 = unknown */
			uint32_t reserved[3];
		} pair;
	};
};
_Static_assert(sizeof(struct cv_entry) == 64, "abi v1");

#define CV_HIST 32

struct cv_wait_detail {
	uint64_t n;        /* waits that ended, timeouts included */
	uint64_t sum_ns;   /* their length, timeouts included */
	uint64_t max_ns;
	uint64_t timeouts; /* waits that ended without the object */
	uint64_t timeout_sum_ns;
	uint64_t last_arrivals; /* barriers: times this thread came last and released the others */
	uint64_t busy_sum_ns;   /* OMP regions: time in the body. trylock: time spent spinning in failed tries */
	uint64_t reserved;
	uint32_t hist[CV_HIST]; /* hist[i]: waits of [2^i, 2^(i+1)) ns; the last one is open */
};
_Static_assert(sizeof(struct cv_wait_detail) == 192, "abi v1");

#define CV_HELD 16
#define CV_LAST 16
#define CV_CACHE 256 /* slots, a power of two */
#define CV_SITES 64  /* slots of the first site table */

/* A timed hold, and what is to be recorded once the lock has been released: nothing but clock
 * reads is done while the program holds a lock (DESIGN, rule 2). Readers commit what they find. */
struct cv_held {
	uint64_t obj;         /* 0 = free */
	uint64_t acquired_ns;
	uint64_t released_ns; /* set when a condition variable released the lock early; else 0 */
	uint64_t wait_ns;     /* 0 = was not contended */
	cv_ref detail;        /* entry to add to */
	uint32_t peer_tid;
	uint32_t peer_frame;
	uint32_t peer_stack;
	uint16_t op;
	uint16_t flags;       /* CV_HELD_* */
	uint32_t acquire_ns;  /* sampled: cost of the acquire; not counted from CV_ACQUIRE_MAX_NS on */
	uint64_t spun_ns;     /* trylock: time of the failed tries before; goes to busy_sum_ns */
};
_Static_assert(sizeof(struct cv_held) == 64, "abi v1");
#define CV_HELD_SAMPLED 1u   /* by the sampler: counts as hold_sampled */
#define CV_HELD_WAIT_ONLY 2u /* a wait on another object (`detail`'s), to be recorded when obj is released */
#define CV_HELD_TIMEOUT 4u   /* that wait timed out */
/* An acquire that takes longer lost its CPU for a time slice. One such sample of some milliseconds
 * would be all of the mean; shorter delays are what a fought lock costs. */
#define CV_ACQUIRE_MAX_NS 1000000u

struct cv_last {
	uint64_t obj;
	uint64_t ra; /* call site of this thread's latest acquisition of obj */
};

enum cv_thread_state {
	CV_THREAD_FREE = 0,
	CV_THREAD_CREATED = 1, /* record made by the creator; the thread has not run yet */
	CV_THREAD_RUNNING = 2,
	CV_THREAD_ENDED = 3,
	CV_THREAD_FAILED = 4,  /* pthread_create failed */
};

struct cv_thread {
	/* identity */
	uint32_t index;          /* of this record, from 0 */
	uint32_t tid;
	uint32_t parent_tid;     /* creator, 0 for the main thread */
	uint32_t state;          /* enum cv_thread_state */
	uint64_t handle;         /* pthread_t */
	uint64_t start_routine;  /* 0 for the main thread */
	uint32_t start_frame;    /* frame id of start_routine */
	cv_ref create_stack;     /* where it was created */
	uint64_t start_ns;
	uint64_t end_ns;         /* 0 while it lives */
	char name[16];
	uint64_t stack_lo;       /* 0 = unknown */
	uint64_t stack_hi;
	uint32_t lives;          /* threads that used this record in turn */
	uint32_t detached;
	/* at thread end, and for living threads at exit() */
	uint64_t cpu_ns;
	uint64_t user_ns;
	uint64_t sys_ns;
	uint64_t run_delay_ns;   /* runnable but not running, 0 = unknown: a file says so, which convoy reads */
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
	/* the wait this thread is in; `wait_since_ns` 0 = none. Readers add it as an unfinished wait. */
	uint64_t wait_obj;
	uint64_t wait_since_ns;
	cv_ref wait_detail;      /* its DETAIL entry */
	uint32_t wait_op;
	/* agent's own working state; readers ignore it */
	uint64_t scratch[40];
	uint32_t held_count;
	uint32_t sites_mask;
	cv_ref sites_table;      /* block of the grown site table in use, 0 = `sites` below */
	uint32_t wait_peer_tid;  /* of the wait above: who held the object, 0 = unknown, ... */
	uint32_t wait_peer_frame; /* ... and where it had been acquired */
	uint32_t reserved[17];
	struct cv_held held[CV_HELD];
	struct cv_last last[CV_LAST];
	struct cv_site sites[CV_SITES];
	struct cv_slot cache[CV_CACHE];
};
_Static_assert(offsetof(struct cv_thread, wait_obj) == 144, "abi v1");
_Static_assert(offsetof(struct cv_thread, scratch) == 168, "abi v1");
_Static_assert(offsetof(struct cv_thread, held_count) == 488, "abi v1");
_Static_assert(offsetof(struct cv_thread, held) == 576, "abi v1");
_Static_assert(offsetof(struct cv_thread, cache) == 576 + 1024 + 256 + 2048, "abi v1");
_Static_assert(sizeof(struct cv_thread) == 576 + 1024 + 256 + 2048 + 8192, "abi v1");

/* ---- shared records --------------------------------------------------------------------- */

enum cv_object_kind {
	CV_OBJECT_UNKNOWN = 0,
	CV_OBJECT_MUTEX,
	CV_OBJECT_RWLOCK,
	CV_OBJECT_SPIN,
	CV_OBJECT_COND,
	CV_OBJECT_BARRIER,
	CV_OBJECT_SEM,
	CV_OBJECT_THREAD,
	CV_OBJECT_ONCE,
	CV_OBJECT_FUTEX,
	CV_OBJECT_OMP_LOCK,
	CV_OBJECT_OMP_CRITICAL,
	CV_OBJECT_OMP_BARRIER,
	CV_OBJECT_OMP_REGION,
};

/* One per (address, creation stack). Made by *_init hooks and by the first slow path that meets the
 * address. `lives` > 1 or several records for one address: the memory was used again. */
struct cv_object {
	uint64_t addr;
	uint32_t kind;          /* enum cv_object_kind; written last */
	cv_ref init_stack;      /* where it was initialised, 0 = statically or unknown */
	uint32_t lives;         /* initialisations seen */
	uint32_t attr;          /* mutex: type and protocol bits of __kind; barrier: count; semaphore: first value */
	uint32_t waker_tid;     /* the latest release, signal, post or wake that found waiters */
	cv_ref waker_stack;
	uint64_t waker_ns;
	uint32_t module;        /* module id + 1 whose mapping holds addr, 0 = none (heap, stack) */
	uint32_t destroyed;     /* destructions seen */
	uint64_t arrivals;      /* barrier: arrivals counted, atomic */
	uint64_t reserved;
};
_Static_assert(sizeof(struct cv_object) == 64, "abi v1");

#define CV_MODULE_NONE 0xffffffffu

struct cv_frame {
	uint64_t pc;      /* return address; look up pc - 1. A start routine: its address, flag EXACT */
	uint64_t offset;  /* pc - load bias of the module: an address in the module's own numbering */
	uint32_t module;  /* module id, CV_MODULE_NONE = code of no object (JIT) */
	uint32_t flags;   /* CV_FRAME_* */
	uint64_t reserved;
};
_Static_assert(sizeof(struct cv_frame) == 32, "abi v1");
#define CV_FRAME_EXACT 1u   /* pc is an instruction's own address, not a return address */
#define CV_FRAME_LAST 2u    /* the stack ends here by rule (thread start) */
#define CV_FRAME_NO_RULE 4u /* no unwind information: what called it is unknown */

#define CV_STACK_MAX 64

struct cv_module {
	uint64_t bias;       /* link_map.l_addr */
	uint64_t lo, hi;     /* mapped range */
	uint64_t loaded_ns;
	uint64_t unloaded_ns; /* 0 = still mapped */
	uint32_t id;
	uint32_t build_id_len;
	uint8_t build_id[32];
	char path[432];      /* NUL-terminated, cut; "[vdso]" for the vdso */
};
_Static_assert(sizeof(struct cv_module) == 512, "abi v1");

#endif
