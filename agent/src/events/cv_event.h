/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Recording of synchronization events, for the event build (-DCV_EVENTS, loaded for `--trace` only).
 * What hooks see; the layout of what is written is abi/convoy_events.h. Agent rules: ../cv_agent.h.
 *
 * A thread writes through its struct cv_event_writer: a chunk of the shared file and a direct-mapped
 * table of the (object, call site) pairs that are defined in this chunk. While a thread holds a lock an
 * event costs a clock read and a few stores: what is slow (a new chunk, a definition, the CPU clock)
 * is done before the acquire or after the release.
 *
 * Preemptions are seen without a system call: rseq_cs points at a descriptor whose code never runs,
 * and the kernel clears the field whenever it takes the thread off its processor (events/rseq.c).
 */
#ifndef CV_EVENT_H
#define CV_EVENT_H

#include "../cv_arena.h"
#include "../cv_table.h"
#include "convoy_events.h"

/* The fields that are used of the C library's struct rseq, whose layout the kernel's ABI fixes. */
struct cv_rseq {
	uint32_t cpu_id_start;
	uint32_t cpu_id;  /* -1: not registered */
	uint64_t rseq_cs; /* descriptor of the restartable sequence; the kernel clears it */
};

struct cv_event_entry {
	uint64_t object;
	uint64_t key; /* return address, and the number of the chunk above bit 48 */
};

#define CV_EVENT_ENTRIES 256u

struct cv_event_writer {
	struct cv_events_chunk *chunk; /* NULL = none */
	struct cv_rseq *rseq;          /* the thread's, or one that never changes */
	uint64_t last;                 /* ticks of the latest record */
	uint64_t generation;           /* number of the chunk << 48 */
	uint64_t busy;                 /* stack pointer of who writes; 0 = nobody */
	uint64_t waited_for;           /* lock whose acquire after a wait is recorded already */
	uint64_t tried_at;             /* object of the failed tries that the last record counts, 0 = none */
	uint64_t tried_from;           /* their call site */
	uint64_t lost;                 /* events since the latest record */
	uint64_t region;               /* OpenMP region at whose end the thread waits, 0 = none */
	uint64_t marked;               /* ticks of the latest reading of the CPU clock */
	uint64_t voluntary;            /* switches by itself until then */
	uint32_t words;                /* written in the chunk; ~0 = no chunk */
	uint32_t number;               /* of the chunk, among the thread's */
	uint32_t thread;               /* index of the thread's record */
	uint32_t attention;            /* there is something to do before the next acquire */
	uint32_t woke;                 /* the release being made has woken somebody */
	uint32_t foreign;              /* looks that found another rseq_cs, in a row */
	uint32_t patience;             /* events to lose before the next search for a chunk */
	struct cv_event_entry entry[CV_EVENT_ENTRIES];
};

/* The calling thread's; NULL = it has none (yet). */
extern __thread struct cv_event_writer *cv_event_writer
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The first page of the thread's file is also mapped here, so that looking at the window is one load. */
#if defined(__x86_64__)
#define CV_EVENT_PAGE 4096
#else
#define CV_EVENT_PAGE 65536 /* the largest page size of the architecture */
#endif
union cv_event_page {
	struct cv_events header;
	char page[CV_EVENT_PAGE];
} __attribute__((aligned(CV_EVENT_PAGE)));
extern union cv_event_page cv_event_page __attribute__((visibility("hidden")));

/* What rseq_cs is set to: the kernel's struct rseq_cs. */
struct cv_event_descriptor {
	uint64_t version_flags, start, length, handler;
} __attribute__((aligned(32)));
extern struct cv_event_descriptor cv_event_descriptor __attribute__((visibility("hidden")));

/* A chunk with more words than this is full: what is slow begins there. */
#define CV_EVENT_ROOM (CV_EVENTS_WORDS - 32u)

/* ---- the fast path ---- */

static inline bool cv_event_window(void)
{
	return __atomic_load_n(&cv_event_page.header.window, __ATOMIC_RELAXED) & 1;
}

/* The stack pointer, or near it. */
static inline uint64_t cv_event_here(void)
{
#if defined(__x86_64__)
	uint64_t sp;

	__asm__ volatile("mov %%rsp, %0" : "=r"(sp));
	return sp;
#else
	return (uint64_t)(uintptr_t)__builtin_frame_address(0);
#endif
}

static inline uint64_t cv_event_now(void)
{
	return cv_likely(cv_session.clock_kind == CV_CLOCK_TSC) ? cv_ticks() : cv_now_by_kernel();
}

/* ... of an acquire that has just been made: the cycle counter would be read before it. */
static inline uint64_t cv_event_now_ordered(void)
{
#if defined(__x86_64__)
	__asm__ volatile("lfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
	return cv_event_now();
}

/* The thread was off its processor since this was asked last. */
static inline bool cv_event_switched(const struct cv_event_writer *w)
{
	return __atomic_load_n(&w->rseq->rseq_cs, __ATOMIC_RELAXED) != (uint64_t)(uintptr_t)&cv_event_descriptor;
}

static inline bool cv_event_is(const struct cv_event_writer *w, const struct cv_event_entry *e, uint64_t obj,
			       uint64_t ra)
{
	return e->object == obj && e->key == (ra | w->generation);
}

/* What an event is about. */
struct cv_event_about {
	uint64_t object;
	uint64_t ra;
	enum cv_object_kind kind;
};

#define CV_ABOUT(kind, object, ra) ((struct cv_event_about){ (object), (ra), (kind) })

/* Attributes of an object that cannot be looked at. */
#define CV_EVENT_NO_ATTR (~0u)

void cv_event_put_slow(uint64_t now, enum cv_ev ev, const struct cv_event_about *about, uint64_t argument);
bool cv_event_prepare_slow(const struct cv_event_about *about);
void cv_event_released_slow(uint64_t stamp, const struct cv_event_about *about);
void cv_event_preempted(void);

/* Append a record without an argument. */
static inline __attribute__((always_inline)) void cv_event_put(uint64_t now, enum cv_ev ev,
							       const struct cv_event_about *about)
{
	struct cv_event_writer *w = cv_event_writer;
	uint8_t k = (uint8_t)cv_slot_hash(about->object, about->ra);
	uint64_t delta;

	if (cv_unlikely(!w)) {
		cv_event_put_slow(now, ev, about, 0);
		return;
	}
	delta = now - w->last;
	if (cv_unlikely(w->busy || w->words > CV_EVENT_ROOM || delta > UINT32_MAX || cv_event_switched(w) ||
			!cv_event_is(w, &w->entry[k], about->object, about->ra) ||
			cv_session.clock_kind != CV_CLOCK_TSC)) {
		cv_event_put_slow(now, ev, about, 0);
		return;
	}
	w->busy = cv_event_here();
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	((uint64_t *)(w->chunk + 1))[w->words] = cv_ev_word((uint32_t)delta, ev, k, (uint16_t)w->rseq->cpu_id);
	w->last = now;
	w->tried_at = 0;
	__atomic_store_n(&w->chunk->words, ++w->words, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	w->busy = 0;
}

/* ---- acquires and releases ---- */

static inline enum cv_object_kind cv_event_kind_of(enum cv_op op)
{
	switch (op) {
	case CV_OP_MUTEX_LOCK:
	case CV_OP_MUTEX_TIMEDLOCK:
	case CV_OP_MUTEX_TRYLOCK:
		return CV_OBJECT_MUTEX;
	case CV_OP_RWLOCK_RD:
	case CV_OP_RWLOCK_WR:
	case CV_OP_RWLOCK_TIMEDRD:
	case CV_OP_RWLOCK_TIMEDWR:
	case CV_OP_RWLOCK_TRYRD:
	case CV_OP_RWLOCK_TRYWR:
		return CV_OBJECT_RWLOCK;
	case CV_OP_SPIN_LOCK:
	case CV_OP_SPIN_TRYLOCK:
		return CV_OBJECT_SPIN;
	case CV_OP_OMP_LOCK:
	case CV_OP_OMP_TRYLOCK:
		return CV_OBJECT_OMP_LOCK;
	case CV_OP_OMP_CRITICAL:
		return CV_OBJECT_OMP_CRITICAL;
	default:
		return CV_OBJECT_UNKNOWN;
	}
}

static inline bool cv_event_is_try(enum cv_op op)
{
	return op >= CV_OP_MUTEX_TRYLOCK && op < CV_OP_COND_WAIT;
}

static inline enum cv_ev cv_event_acquired_as(enum cv_op op)
{
	switch (op) {
	case CV_OP_RWLOCK_RD:
	case CV_OP_RWLOCK_TIMEDRD:
		return CV_EV_ACQUIRED_SHARED;
	case CV_OP_RWLOCK_TRYRD:
		return CV_EV_TRY_ACQUIRED_SHARED;
	default:
		return cv_event_is_try(op) ? CV_EV_TRY_ACQUIRED : CV_EV_ACQUIRED;
	}
}

/* Before an acquire; true = it is to be recorded. Makes sure that recording it is short. */
static inline __attribute__((always_inline)) bool cv_event_before(const struct cv_event_about *about)
{
	struct cv_event_writer *w = cv_event_writer;
	const struct cv_event_entry *e;

	if (cv_likely(!cv_event_window()))
		return false;
	if (cv_unlikely(!w))
		return cv_event_prepare_slow(about);
	e = &w->entry[cv_slot_hash(about->object, about->ra)];
	w->waited_for = 0;
	if (cv_likely(cv_event_is(w, e, about->object, about->ra) && w->words <= CV_EVENT_ROOM && !w->attention &&
		      !cv_event_switched(w)))
		return true;
	return cv_event_prepare_slow(about);
}

void cv_event_try_failed(const struct cv_event_about *about);

/* After it. A wait has been recorded where it ended, see cv_event_wait_held(). */
static inline __attribute__((always_inline)) void cv_event_after(enum cv_op op, const struct cv_event_about *about,
								 bool got)
{
	uint64_t now;

	if (cv_likely(got)) {
		if (cv_event_writer && cv_unlikely(cv_event_writer->waited_for == about->object))
			return;
		now = cv_event_now_ordered();
		cv_event_put(now, cv_event_acquired_as(op), about);
	} else if (cv_event_is_try(op)) {
		cv_event_try_failed(about);
	}
}

/* Before a release: its time; 0 = it is not recorded. */
static inline __attribute__((always_inline)) uint64_t cv_event_release_time(void)
{
	struct cv_event_writer *w = cv_event_writer;

	if (cv_likely(!cv_event_window()) || cv_unlikely(!w))
		return 0;
	w->woke = 0;
	if (cv_unlikely(cv_event_switched(w)))
		cv_event_preempted();
	return cv_event_now();
}

static inline __attribute__((always_inline)) void cv_event_released(uint64_t stamp, const struct cv_event_about *about)
{
	struct cv_event_writer *w = cv_event_writer;

	if (cv_unlikely(!w || w->woke || w->attention))
		cv_event_released_slow(stamp, about);
	else
		cv_event_put(stamp, CV_EV_RELEASED, about);
}

/* ---- all others ---- */

/* An event that is recorded in windows only, and one that always is. */
void cv_event_in_window(enum cv_ev ev, enum cv_object_kind kind, uint64_t obj, uint64_t ra, uint64_t argument);
void cv_event_always(enum cv_ev ev, enum cv_object_kind kind, uint64_t obj, uint64_t ra, uint64_t argument);

/* A wake-up of waiters, begun at `stamp` (from cv_event_wake_time) and made by now. */
uint64_t cv_event_wake_time(void);
void cv_event_wakes(uint64_t stamp, enum cv_ev ev, enum cv_object_kind kind, uint64_t obj, uint64_t ra);

/* Waits, for cv_wait.c. */
struct cv_blocking;
void cv_event_wait_begins(const struct cv_blocking *b);
void cv_event_wait_held(const struct cv_blocking *b);            /* it ended with the lock */
void cv_event_wait_ended(const struct cv_blocking *b, bool timeout);
void cv_event_wait_last(const struct cv_blocking *b);            /* at a barrier, as the one who came last */

/* A wait on a condition variable. */
void cv_event_cond_waits(uint64_t cond, uint64_t mutex, uint64_t ra);
void cv_event_cond_woken(uint64_t cond, uint64_t mutex, uint64_t ra, bool timeout);

/* OpenMP's parallel regions: a member begins, and ends; the thread that began the region goes on behind it. The others
 * wait in the runtime, out of sight, until the next region begins. */
void cv_event_region_begins(void);
void cv_event_region_ends(uint64_t region);
void cv_event_region_left(void);

/* Somebody is woken by what this thread is doing. */
static inline void cv_event_woke(void)
{
	if (cv_event_writer)
		cv_event_writer->woke = 1;
}

/* Life. */
void cv_events_begin(void);                       /* an arena is open */
void cv_events_forked(void);                      /* in a fork child, before anything else */
void cv_event_thread_begins(struct cv_thread *t); /* the calling one */
void cv_event_thread_ends(void);

#endif
