/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Synchronization events: what the event build of the agent (loaded for `--trace`) and convoy share.
 *
 * One more file in the session directory, beside the arena p<pid>.<n> of the same process image:
 *
 *   e<pid>.<n>    header page, states of the chunks, then the chunks
 *
 * A thread takes a free chunk, appends records to it, and hands it over when it is full; convoy reads
 * it while the program runs and gives it back. The length of a chunk is stored after each record, so
 * that everything written before a SIGKILL can be read. When no chunk is free, events are lost and
 * counted. Every number that a reader meets is hostile.
 *
 * Ticks are readings of the session's clock (struct cv_session): cycle counter, or nanoseconds where
 * a chunk says so. Bump CV_EVENTS_VERSION for every change of a layout or of a meaning.
 */
#ifndef CONVOY_EVENTS_H
#define CONVOY_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#define CV_EVENTS_MAGIC 0x315456455f564f43ull /* "COV_EVT1" */
#define CV_EVENTS_VERSION 1u

/* ---- the file --------------------------------------------------------------------------- */

/* Events that were not recorded, by reason. */
enum cv_events_drop {
	CV_EVENTS_DROP_NO_CHUNK = 0, /* all chunks full: convoy did not keep up */
	CV_EVENTS_DROP_NO_ROOM,      /* the file system of the session is full */
	CV_EVENTS_DROP_REENTRANT,    /* in a signal handler that interrupted the recording of another event */
	CV_EVENTS_DROP_NO_RECORD,    /* the thread has no record, or no memory for its table of entries */
	CV_EVENTS_DROP_MAX = 16,
};

enum cv_events_flag {
	CV_EVENTS_SWITCHES = 1,      /* preemptions are seen (rseq); without it there are no PREEMPTED records */
	CV_EVENTS_RSEQ_FOREIGN = 2,  /* the program uses rseq itself: some of its threads' preemptions are not seen */
};

enum cv_events_state { /* of a chunk; atomic; who may write it next */
	CV_EVENTS_FREE = 0,   /* a thread of the program */
	CV_EVENTS_OWNED = 1,  /* the thread that took it */
	CV_EVENTS_READY = 2,  /* convoy */
	CV_EVENTS_TAKEN = 3,  /* its new owner writes the header: nothing in it is valid */
};

#define CV_EVENTS_HEADER_BYTES 4096u
#define CV_EVENTS_CHUNKS 8192u
#define CV_EVENTS_CHUNK_BYTES (16u << 10)
#define CV_EVENTS_STATES_BYTES 32768u /* CV_EVENTS_CHUNKS states of 4 bytes */

struct cv_events {
	uint64_t magic;          /* written last */
	uint32_t version;
	uint32_t pid;
	uint64_t bytes;          /* of the file */
	uint64_t arena_start_ns; /* cv_arena.start_ns of the image that it belongs to */
	uint32_t flags;          /* atomic: enum cv_events_flag */
	uint32_t chunks_used;    /* atomic: chunks with a higher number were never taken */
	uint32_t first_free;     /* a guess: where the search for a free chunk begins; written by both */
	uint32_t reserved0;
	uint64_t drops[CV_EVENTS_DROP_MAX];
	uint8_t reserved1[1024 - 176];
	uint32_t window;         /* written by convoy; odd: every operation is recorded, even: those that block */
	uint8_t reserved2[CV_EVENTS_HEADER_BYTES - 1024 - 4];
	/* then CV_EVENTS_CHUNKS states (uint32_t, enum cv_events_state), then the chunks */
};
_Static_assert(sizeof(struct cv_events) == CV_EVENTS_HEADER_BYTES, "events abi v1");
_Static_assert(offsetof(struct cv_events, window) == 1024, "events abi v1");
_Static_assert(CV_EVENTS_STATES_BYTES == CV_EVENTS_CHUNKS * 4, "events abi v1");

struct cv_events_chunk { /* 64 bytes, then records */
	uint32_t words;         /* of whole records, 8 bytes each; release-stored after them */
	uint32_t thread;        /* index of the thread's record in the arena */
	uint64_t ticks;         /* what the first record's delta counts from */
	uint64_t cpu_ns;        /* CPU time of the thread then; 0 = unknown */
	uint32_t number;        /* chunks of this thread record, this one included */
	uint32_t clock_kind;    /* of ticks and deltas: enum cv_clock_kind */
	uint64_t reserved[4];
};
_Static_assert(sizeof(struct cv_events_chunk) == 64, "events abi v1");
#define CV_EVENTS_WORDS 2040u /* in a chunk behind its header */
_Static_assert(sizeof(struct cv_events_chunk) + CV_EVENTS_WORDS * 8 == CV_EVENTS_CHUNK_BYTES, "events abi v1");

/* ---- records ----------------------------------------------------------------------------- */

/*
 * The first word of a record: bits 0-31 ticks since the record before, 32-39 kind, 40-47 entry, 48-63
 * processor (0xffff = unknown). A kind with CV_EV_ARG is followed by one more word, DEFINE by three.
 *
 * An entry is an object and a call site. Each of the 256 entries is defined in the chunk before its
 * first use there, so that a chunk can be read alone, and again when it changes.
 */
#define CV_EV_ARG 0x80u     /* a word follows */
#define CV_EV_NO_ENTRY 0x40u /* concerns no entry */
#define CV_EV_NO_CPU 0xffffu

enum cv_ev {
	CV_EV_ACQUIRED = 0x01,            /* lock taken at the first attempt */
	CV_EV_ACQUIRED_SHARED = 0x02,
	CV_EV_REQUEST = 0x03,             /* about to wait for it */
	CV_EV_REQUEST_SHARED = 0x04,
	CV_EV_ACQUIRED_AFTER_WAIT = 0x05,
	CV_EV_TRY_ACQUIRED = 0x06,
	CV_EV_TRY_ACQUIRED_SHARED = 0x07,
	CV_EV_TRY_FAILED = 0x88,          /* argument: how many in a row; changes in place while it is the last record */
	CV_EV_TIMED_OUT = 0x09,           /* a wait ended without the object */
	CV_EV_RELEASED = 0x0a,            /* ticks are those just before the release */
	CV_EV_WOKE = 0x0b,                /* ... and it had to wake waiters: after the system call */
	CV_EV_COND_WAIT = 0x8c,           /* argument: address of the mutex */
	CV_EV_COND_WOKEN = 0x8d,          /* argument: the same */
	CV_EV_SIGNAL = 0x0e,
	CV_EV_BROADCAST = 0x0f,
	CV_EV_BARRIER_ARRIVE = 0x10,
	CV_EV_BARRIER_LEAVE = 0x11,
	CV_EV_BARRIER_LEAVE_LAST = 0x12,  /* the thread came last */
	CV_EV_SEM_REQUEST = 0x13,
	CV_EV_SEM_ACQUIRED = 0x14,
	CV_EV_SEM_POST = 0x15,
	CV_EV_ONCE_BEGIN = 0x16,
	CV_EV_ONCE_END = 0x17,
	CV_EV_FUTEX_WAIT = 0x18,
	CV_EV_FUTEX_WOKEN = 0x19,
	CV_EV_FUTEX_WAKE = 0x9a,          /* argument: waiters asked for */
	CV_EV_CREATE = 0x9b,              /* argument: index of the new thread's record; the object is 0 */
	CV_EV_JOIN_BEGIN = 0x1c,          /* the object is the pthread_t */
	CV_EV_JOIN_END = 0x1d,
	CV_EV_START = 0xde,               /* argument: pthread_t of the thread */
	CV_EV_END = 0x5f,
	/* The kernel took the thread off its processor, which it has not left by itself since the latest
	 * reading; argument: its CPU time, ns. */
	CV_EV_PREEMPTED = 0xe0,
	CV_EV_CPU_TIME = 0xe1,            /* argument: its CPU time, ns */
	CV_EV_LOST = 0xe2,                /* argument: events missing here */
	CV_EV_OFF_CPU = 0xe3,             /* the same of a thread that has also left it by itself */
	CV_EV_TIME = 0xfe,                /* argument: ticks; the next delta counts from there */
	CV_EV_DEFINE = 0x3f,              /* bits 48-55: enum cv_object_kind; then object, return address, and a word
					     with the stack (cv_ref, 0 = unknown) in its low half and attributes of
					     the object above it (~0 = unknown) */
};

static inline uint64_t cv_ev_word(uint32_t delta, uint8_t kind, uint8_t entry, uint16_t cpu)
{
	return delta | (uint64_t)kind << 32 | (uint64_t)entry << 40 | (uint64_t)cpu << 48;
}

#endif
