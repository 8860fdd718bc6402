/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The slow half of recording an event: new chunks, definitions, preemptions. Agent rules: ../cv_agent.h. */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "../cv_frames.h"
#include "../cv_sandbox.h"
#include "../cv_thread.h"
#include "cv_event_file.h"

#include "../cv_banned.h"

#define PATIENCE 256u        /* events lost between two searches for a chunk */
#define PREPARED_ROOM (CV_EVENT_ROOM - 32u) /* left for what follows cv_event_before() */
#define MARK_NS 50000u       /* between two readings of the CPU clock after waits */

__thread struct cv_event_writer *cv_event_writer;

/* ---- claiming ---- */

/* False = a writer below us in the same thread is at work: we are in a signal handler. */
static bool enter(struct cv_event_writer *w)
{
	uint64_t here = cv_event_here();
	const struct cv_thread *t = cv_self;

	if (cv_unlikely(w->busy) && (!t || !cv_abandoned(t, w->busy, here) || cv_on_signal_stack())) {
		cv_event_drop(CV_EVENTS_DROP_REENTRANT, 1);
		w->lost++;
		return false;
	}
	w->busy = here;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

static void leave(struct cv_event_writer *w)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	w->busy = 0;
}

static struct cv_event_writer *writer(void)
{
	if (cv_likely(cv_event_writer != NULL))
		return cv_event_writer;
	/* A thread that no hook saw being created gets its record now. */
	if (cv_event_file && cv_thread() && cv_event_writer)
		return cv_event_writer;
	cv_event_drop(CV_EVENTS_DROP_NO_RECORD, 1);
	return NULL;
}

/* ---- records; between enter and leave, with room for them ---- */

static void append(struct cv_event_writer *w, uint64_t word, uint64_t argument, uint32_t words)
{
	uint64_t *to = (uint64_t *)(w->chunk + 1) + w->words;

	to[0] = word;
	if (words > 1)
		to[1] = argument;
	w->words += words;
	__atomic_store_n(&w->chunk->words, w->words, __ATOMIC_RELEASE);
	w->tried_at = 0;
}

static uint32_t delta_to(struct cv_event_writer *w, uint64_t now)
{
	uint64_t delta;

	if (now < w->last) /* a signal handler has recorded since `now` was read */
		now = w->last;
	delta = now - w->last;
	w->last = now;
	if (cv_likely(delta <= UINT32_MAX))
		return (uint32_t)delta;
	append(w, cv_ev_word(0, CV_EV_TIME, 0, CV_EV_NO_CPU), now, 2);
	return 0;
}

static void record(struct cv_event_writer *w, uint64_t now, enum cv_ev ev, uint8_t entry, uint64_t argument)
{
	uint32_t delta = delta_to(w, now);

	append(w, cv_ev_word(delta, (uint8_t)ev, entry, (uint16_t)w->rseq->cpu_id), argument, ev & CV_EV_ARG ? 2 : 1);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	if (cv_is_quiet() || cv_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&ts, 0, 0, 0, 0) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* How often the calling thread has left its processor by itself. */
static uint64_t voluntary_switches(void)
{
	struct rusage usage;

	if (cv_is_quiet() || cv_syscall(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0, 0, 0) < 0)
		return 0;
	return (uint64_t)usage.ru_nvcsw;
}

static void record_cpu(struct cv_event_writer *w, uint64_t now, enum cv_ev ev)
{
	uint64_t cpu = cpu_ns();
	uint64_t voluntary = voluntary_switches();

	if (ev == CV_EV_PREEMPTED && voluntary != w->voluntary)
		ev = CV_EV_OFF_CPU;
	w->voluntary = voluntary;
	w->marked = now;
	w->attention = 0;
	if (cpu)
		record(w, now, ev, 0, cpu);
}

/* After a wait the CPU clock tells how much of the time before was spent off the processor. */
static void mark_if_due(struct cv_event_writer *w)
{
	uint64_t now = cv_event_now();
	uint64_t passed = now - w->marked;

	if (w->attention &&
	    (cv_session.clock_kind == CV_CLOCK_TSC ? cv_ticks_to_ns(passed) : passed) >= MARK_NS)
		record_cpu(w, now, CV_EV_CPU_TIME);
}

/* ---- chunks ---- */

static void chunk_begin(struct cv_event_writer *w, uint64_t now)
{
	struct cv_events_chunk *c = w->chunk;

	w->number++;
	if ((w->number & 0xffff) == 0) { /* entries of 65,536 chunks before would count as defined */
		w->number++;
		memset(w->entry, 0, sizeof(w->entry));
	}
	w->generation = (uint64_t)w->number << 48;
	w->words = 0;
	w->last = now;
	w->tried_at = 0;
	c->thread = w->thread;
	c->ticks = now;
	c->number = w->number;
	c->clock_kind = cv_session.clock_kind;
	c->cpu_ns = cpu_ns();
	w->voluntary = voluntary_switches();
	w->marked = now;
	cv_event_chunk_own(w);
	if (w->lost) {
		record(w, now, CV_EV_LOST, 0, w->lost);
		w->lost = 0;
	}
}

static bool lose(struct cv_event_writer *w)
{
	cv_event_drop(CV_EVENTS_DROP_NO_CHUNK, 1);
	w->lost++;
	return false;
}

/* Room for the largest group of records. */
static bool make_room(struct cv_event_writer *w, uint64_t now, uint32_t most)
{
	if (cv_likely(w->words <= most && w->chunk->clock_kind == cv_session.clock_kind))
		return true;
	if (!w->chunk && w->patience) {
		w->patience--;
		return lose(w);
	}
	cv_event_chunk_hand_over(w);
	if (!cv_event_file || !cv_event_chunk_take(w)) {
		w->patience = PATIENCE;
		return lose(w);
	}
	w->patience = 0;
	chunk_begin(w, now);
	return true;
}

/* ---- definitions ---- */

#define SITES 4096u

/* Call sites whose stack some definition has; insert-only. */
static uint64_t known_sites[SITES];
static uint32_t known_count;

static bool is_new_site(uint64_t ra)
{
	uint32_t at = (uint32_t)((ra * 0x9E3779B97F4A7C15ull) >> 40);

	for (uint32_t n = 0; n < 16; n++, at++) {
		uint64_t *slot = &known_sites[at % SITES], none = 0;
		uint64_t found = __atomic_load_n(slot, __ATOMIC_RELAXED);

		if (found == ra)
			return false;
		if (found)
			continue;
		if (__atomic_load_n(&known_count, __ATOMIC_RELAXED) > SITES / 4 * 3)
			return false;
		if (!__atomic_compare_exchange_n(slot, &none, ra, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		__atomic_fetch_add(&known_count, 1, __ATOMIC_RELAXED);
		return true;
	}
	return false;
}

/* Only while the object is sure to be there: before an operation, not after a release. */
static uint32_t attributes(const struct cv_event_about *about, bool there)
{
	const void *object = (const void *)(uintptr_t)about->object;

	if (!there)
		return CV_EVENT_NO_ATTR;
	if (about->kind == CV_OBJECT_MUTEX)
		return (uint32_t)((const pthread_mutex_t *)object)->__data.__kind;
	if (about->kind == CV_OBJECT_RWLOCK)
		return ((const pthread_rwlock_t *)object)->__data.__flags;
	return CV_EVENT_NO_ATTR;
}

static uint8_t define(struct cv_event_writer *w, uint64_t now, const struct cv_event_about *about, bool there)
{
	uint8_t k = (uint8_t)cv_slot_hash(about->object, about->ra);
	struct cv_event_entry *e = &w->entry[k];
	uint64_t *to;
	uint64_t stack;

	if (cv_likely(cv_event_is(w, e, about->object, about->ra)))
		return k;
	stack = is_new_site(about->ra) ? cv_stack_capture() : 0;
	to = (uint64_t *)(w->chunk + 1) + w->words;
	to[2] = about->ra;
	to[3] = stack | (uint64_t)attributes(about, there) << 32;
	append(w, cv_ev_word(delta_to(w, now), CV_EV_DEFINE, k, (uint16_t)about->kind), about->object, 4);
	e->object = about->object;
	e->key = about->ra | w->generation;
	return k;
}

/* ---- what hooks call ---- */

void cv_event_put_slow(uint64_t now, enum cv_ev ev, const struct cv_event_about *about, uint64_t argument)
{
	struct cv_event_writer *w = writer();
	int saved = errno;
	uint8_t k;

	if (!w || !enter(w))
		return;
	if (make_room(w, now, CV_EVENT_ROOM)) {
		if (cv_event_switched(w) && cv_event_rseq_rearm(w))
			record_cpu(w, now, CV_EV_PREEMPTED);
		k = ev & CV_EV_NO_ENTRY ? 0 : define(w, now, about, ev != CV_EV_RELEASED && ev != CV_EV_WOKE);
		record(w, now, ev, k, argument);
	}
	leave(w);
	errno = saved;
}

bool cv_event_prepare_slow(const struct cv_event_about *about)
{
	struct cv_event_writer *w = writer();
	int saved = errno;
	uint64_t now;

	if (!w || !enter(w))
		return w != NULL;
	now = cv_event_now();
	w->waited_for = 0;
	if (make_room(w, now, PREPARED_ROOM)) {
		if (cv_event_switched(w) && cv_event_rseq_rearm(w))
			record_cpu(w, now, CV_EV_PREEMPTED);
		mark_if_due(w);
		define(w, now, about, true);
	}
	leave(w);
	errno = saved;
	return true;
}

void cv_event_preempted(void)
{
	struct cv_event_writer *w = cv_event_writer;
	uint64_t now;

	if (w->busy || w->words > CV_EVENT_ROOM || !enter(w))
		return;
	now = cv_event_now();
	if (cv_event_rseq_rearm(w))
		record_cpu(w, now, CV_EV_PREEMPTED);
	leave(w);
}

void cv_event_released_slow(uint64_t stamp, const struct cv_event_about *about)
{
	struct cv_event_writer *w = cv_event_writer;
	bool woke = w && w->woke;

	cv_event_put(stamp, CV_EV_RELEASED, about);
	if (woke)
		cv_event_put(cv_event_now(), CV_EV_WOKE, about);
	if (!w || !w->attention || w->words > CV_EVENT_ROOM || w->busy || !enter(w))
		return;
	mark_if_due(w);
	leave(w);
}

void cv_event_try_failed(const struct cv_event_about *about)
{
	struct cv_event_writer *w = cv_event_writer;

	if (w && w->chunk && !w->busy && w->tried_at == about->object && w->tried_from == about->ra &&
	    !cv_event_switched(w)) {
		++((uint64_t *)(w->chunk + 1))[w->words - 1];
		return;
	}
	cv_event_put_slow(cv_event_now(), CV_EV_TRY_FAILED, about, 1);
	w = cv_event_writer;
	if (w && w->chunk && !w->busy) {
		w->tried_at = about->object;
		w->tried_from = about->ra;
	}
}

/* ---- life ---- */

/* Threads that share a record one after another share its writer. */
static struct cv_event_writer *writer_of(struct cv_thread *t)
{
	struct cv_work *work = cv_work(t);
	struct cv_block *b;

	if (!work->events) {
		b = cv_block_alloc(CV_BLOCK_INDEX, sizeof(struct cv_event_writer), sizeof(struct cv_event_writer),
				   t->index);
		work->events = b ? cv_ref_of(cv_payload(b)) : 0;
	}
	return cv_at(work->events);
}

void cv_event_thread_begins(struct cv_thread *t)
{
	struct cv_event_writer *w = cv_event_file ? writer_of(t) : NULL;

	if (!w)
		return;
	w->chunk = NULL;
	w->words = ~0u;
	w->busy = 0;
	w->attention = 0;
	w->patience = 0;
	w->lost = 0;
	w->region = 0;
	w->thread = t->index;
	cv_event_rseq_attach(w);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cv_event_writer = w;
	cv_event_put_slow(cv_event_now(), CV_EV_START, NULL, t->handle);
}

void cv_event_thread_ends(void)
{
	struct cv_event_writer *w = cv_event_writer;

	if (!w)
		return;
	cv_event_put_slow(cv_event_now(), CV_EV_END, NULL, 0);
	cv_event_writer = NULL;
	cv_event_rseq_detach(w);
	cv_event_chunk_hand_over(w);
}
