/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the tracing agent (loaded for `convoy diagnose` only) and convoy share about critical sections.
 *
 * Two more files in the session directory:
 *
 *   targets       written by convoy before the program starts: which acquire sites to look into, and how much
 *   t<pid>.<n>    beside the arena p<pid>.<n>: what the sections of that process image executed
 *
 * A trace file is a header, an append-only log of translated blocks (what each one executes), and a pool of
 * chunks. A thread takes a free chunk, writes whole sections into it one after another, and hands it
 * over; convoy reads it while the program runs and gives it back. Where no chunk is free the section
 * is not traced, and counted as dropped. Every number that a reader meets is hostile.
 *
 * Times are CLOCK_MONOTONIC nanoseconds. Bump CV_TRACE_VERSION for every change of a layout or of a meaning.
 */
#ifndef CONVOY_TRACE_H
#define CONVOY_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define CV_TARGETS_MAGIC 0x315447525f564f43ull
#define CV_TRACE_MAGIC 0x314352545f564f43ull
#define CV_TRACE_VERSION 3u

/* ---- which sections --------------------------------------------------------------------- */

enum cv_targets_flags {
	CV_TARGETS_ALL = 1,   /* every acquire site: the list is empty */
	CV_TARGETS_EVERY = 2, /* every section: no sampling, no budget */
	CV_TARGETS_VALUES = 4, /* also the values that sections load, and the registers that they begin with */
};

struct cv_targets { /* 64 bytes, then `count` struct cv_target, sorted by (build_id, path_hash, offset) */
	uint64_t magic;
	uint32_t version;
	uint32_t flags;
	uint32_t count;
	uint32_t first;         /* sections of a site that its first thread traces before sampling begins; the n-th has an n-th */
	uint32_t budget_ppm;    /* time that tracing may add, of the thread's time, in millionths */
	uint32_t max_words;     /* a section's record is cut at this many 8-byte words; at most CV_TRACE_WORDS_MAX */
	uint64_t reserved[4];
};
_Static_assert(sizeof(struct cv_targets) == 64, "trace abi v3");

struct cv_target { /* a call of a blocking acquire */
	uint64_t offset;        /* of the return address, in the module's own numbering (address - load bias) */
	uint32_t build_id_bytes; /* 0: the module has none, and `path_hash` decides */
	uint8_t build_id[20];   /* its first bytes, zeros behind them */
	uint64_t path_hash;     /* FNV-1a 64 of the module's path as struct cv_module has it; 0 if there is a build-id */
};
_Static_assert(sizeof(struct cv_target) == 40, "trace abi v3");

/* ---- the trace file --------------------------------------------------------------------- */

enum cv_trace_drop {
	CV_TRACE_DROP_NO_CHUNK = 0, /* convoy did not keep up: the section was not traced */
	CV_TRACE_DROP_NO_BLOCKS,    /* the log of blocks is full: the section was cut where new code began */
	CV_TRACE_DROP_NO_MEMORY,    /* no memory for the cache near the code: cut */
	CV_TRACE_DROP_REENTRANT,    /* acquired in a signal handler that interrupted the tracer at work */
	CV_TRACE_DROP_NO_SITE,      /* more acquire sites than there is room for: those beyond are not traced */
	CV_TRACE_DROP_NO_ROOM,      /* the file system of the session is full: the section was not traced */
	CV_TRACE_DROP_MAX = 16,
};

enum cv_chunk_state { /* atomic; who may write it next */
	CV_CHUNK_FREE = 0,  /* a thread of the program */
	CV_CHUNK_OWNED = 1, /* the thread that took it */
	CV_CHUNK_READY = 2, /* convoy */
};

#define CV_TRACE_HEADER_BYTES 4096u
#define CV_TRACE_CHUNK_BYTES (512u << 10)
#define CV_TRACE_CHUNKS 32u             /* 16 MiB */
#define CV_TRACE_WORDS_MAX 40960u       /* of a section; the rest of a chunk is slack (CV_TR_SLACK_WORDS), and room for more sections */
#define CV_TRACE_BLOCKS_BYTES (16u << 20) /* reserved; pages are used as needed */

struct cv_trace_chunk { /* one per chunk, in the header */
	uint32_t state;         /* enum cv_chunk_state */
	uint32_t words;         /* 8-byte words of whole sections; release-stored after them, also while OWNED */
};

struct cv_trace {
	uint64_t magic;         /* written last */
	uint32_t version;
	uint32_t pid;
	uint64_t bytes;         /* of the file */
	uint64_t arena_start_ns; /* cv_arena.start_ns of the image that it belongs to */
	uint64_t blocks_used;   /* bytes of the log that are whole; release-stored after them */
	uint64_t sections;      /* atomic: sections that were traced, whole or cut */
	uint64_t translated_instructions; /* atomic: program instructions in the caches */
	uint64_t cache_bytes;   /* atomic */
	uint64_t flushes;       /* atomic: times that all translations were given up (code was unmapped or changed) */
	uint64_t drops[CV_TRACE_DROP_MAX];
	struct cv_trace_chunk chunks[CV_TRACE_CHUNKS];
	char why_not[256];      /* why nothing can be traced here; empty = it can */
	uint8_t reserved[CV_TRACE_HEADER_BYTES - 72 - 8 * CV_TRACE_DROP_MAX - 8 * CV_TRACE_CHUNKS - 256];
	/* at CV_TRACE_HEADER_BYTES: the log of blocks; behind it the chunks */
};
_Static_assert(sizeof(struct cv_trace) == CV_TRACE_HEADER_BYTES, "trace abi v3");

/* ---- the log of blocks ------------------------------------------------------------------ */

enum cv_access_kind { /* what a memory operand leaves in the record */
	CV_ACCESS_PLAIN = 0,  /* 1 word: the address */
	CV_ACCESS_REPEAT = 1, /* 2 words: lowest address, and how many times `size` bytes (rep movs and its kin; 0 = none) */
	CV_ACCESS_MASKED = 2, /* 2 words: the address, and a bit for each lane of `size` bytes that is touched */
	CV_ACCESS_LANES = 3,  /* 1 + `lanes` words: bits of the lanes that are touched, then an address for each lane */
	CV_ACCESS_RESULT = 4, /* 1 word: no access, but what a function returns, with the access of its return */
	/* 1 word: no access, but what the access before it loads, zeros above `size` bytes; with
	 * CV_TARGETS_VALUES, for plain operands of 1, 2, 4, 8 bytes that are read, and two for
	 * those of 16 */
	CV_ACCESS_VALUE = 5,
};

enum cv_access_flags {
	CV_ACCESS_READ = 1,
	CV_ACCESS_WRITE = 2,
	CV_ACCESS_ATOMIC = 4, /* lock prefix, or xchg with memory */
	CV_ACCESS_STACK = 8,  /* implicit: push, pop, call, ret */
	CV_ACCESS_FIELD = 16, /* the address is that in one register, not the stack pointer's, plus `field` */
};

struct cv_trace_access { /* in order of the words that they leave */
	uint16_t at;            /* instruction: bytes behind the block's `ip` */
	uint16_t instruction;   /* ... and its number in the block */
	uint8_t kind;           /* enum cv_access_kind */
	uint8_t flags;          /* enum cv_access_flags */
	uint8_t lanes;
	uint8_t reserved;
	uint32_t size;          /* bytes: of the operand, of one repetition, or of one lane */
	int32_t field;          /* CV_ACCESS_FIELD; else 0 */
};
_Static_assert(sizeof(struct cv_trace_access) == 16, "trace abi v3");

struct cv_trace_block {
	uint32_t bytes;         /* of this record with its accesses; a multiple of 8 */
	uint32_t id;            /* numbered from 1 in the order of the log */
	uint64_t ip;            /* address of its first instruction, at run time */
	uint32_t code_bytes;    /* of its instructions; what is executed may differ where the program rewrites code */
	uint16_t instructions;
	uint16_t accesses;      /* struct cv_trace_access that follow */
	uint32_t words;         /* that an execution leaves in the record, the first one (its id) included */
	uint32_t reserved;
};
_Static_assert(sizeof(struct cv_trace_block) == 32, "trace abi v3");

/* ---- the record of a section ------------------------------------------------------------ */

/*
 * A section begins when a blocking acquire of a target returns and ends when the same thread releases that
 * object. Its record is a header and then events, each beginning with a word whose top byte tells what it is.
 */
enum cv_section_end {
	CV_END_RELEASED = 0,  /* whole */
	CV_END_WAITED = 1,    /* whole: it gave the object up in a wait on a condition variable */
	/* cut: what follows was not traced */
	CV_END_TOO_LONG = 2,  /* max_words */
	CV_END_SIGNAL = 3,    /* a signal handler ran; detail: the signal */
	CV_END_PROCESS = 4,   /* fork, clone, exec, exit, pthread_create; detail: the system call, or 0 */
	CV_END_CODE = 5,      /* code that is writable (a JIT), not readable, or not understood; detail: its address */
	CV_END_LEFT = 6,      /* a function of the agent went on without the tracer, e.g. it blocked elsewhere */
	CV_END_NO_ROOM = 7,   /* CV_TRACE_DROP_NO_BLOCKS, CV_TRACE_DROP_NO_MEMORY */
	CV_END_THREAD = 8,    /* the thread ended, or the recording did, with the object held */
};

struct cv_section { /* 10 words */
	uint32_t words;         /* of header and events */
	uint16_t end;           /* enum cv_section_end */
	uint16_t op;            /* enum cv_op of the acquire */
	uint64_t object;        /* its address */
	uint64_t ra;            /* return address of the acquire */
	uint32_t stack;         /* cv_ref of the acquire's call stack in the arena, 0 = unknown */
	uint32_t thread;        /* index of the thread's record in the arena */
	uint64_t begin_ns;      /* the acquire returned */
	uint64_t end_ns;        /* the release was called, or the record was cut */
	uint64_t detail;        /* of `end` */
	uint32_t weight;        /* sections of this site and thread that it stands for: itself and those passed over before it */
	uint32_t waited;        /* 1: the acquire had to wait */
	uint64_t stack_lo;      /* of the thread, 0 = unknown */
	uint64_t stack_hi;
};
_Static_assert(sizeof(struct cv_section) == 80, "trace abi v3");

enum cv_trace_event { /* the top byte; the other 56 bits are the argument */
	CV_EVENT_BLOCK = 1,   /* argument: id of the block; then its words - 1 words of addresses */
	CV_EVENT_SYSCALL = 2, /* argument: the number. The block before it ends with the instruction */
	CV_EVENT_HOOK = 3,    /* argument: enum cv_op of an operation of the agent that was called; 1 word: its object.
				 0 = another function of the agent */
	CV_EVENT_HOOK_WAIT = 4, /* after a HOOK that had to wait; argument: nanoseconds */
	CV_EVENT_PART = 5,    /* argument: instructions of the block just before that were not executed (a fault, a signal) */
	CV_EVENT_UNLOCK = 6,  /* argument: 0; 1 word: the object. A release of another object than the section's */
	CV_EVENT_REGISTERS = 7, /* with CV_TARGETS_VALUES, when a function of the agent has returned: first in a section.
				   CV_REGISTERS_WORDS words: rax, rbx, rbp, rsp, r12 to r15, the thread pointer */
};
#define CV_REGISTERS_WORDS 9u
static inline uint64_t cv_event(enum cv_trace_event kind, uint64_t argument)
{
	return (uint64_t)kind << 56 | (argument & 0x00ffffffffffffffull);
}

#endif
