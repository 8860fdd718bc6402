/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Causal experiments inside the program, for the experimenting build (-DCV_EXPERIMENTS, loaded by
 * `convoy causal` only). What hooks see; the layout of what is shared is abi/convoy_causal.h.
 *
 * While convoy's control page names a window, threads lengthen what they run, in place and on the
 * CPU: everything but the subject (a virtual speed-up of it, however many threads share a CPU), or
 * the subject. Two mechanisms measure what ran: samples (sampling.c), for functions and lines, and
 * the hooks themselves (measured.c), for critical sections, which are far shorter than what lies
 * between two samples. Outside of windows a hook is one load longer. Agent rules: ../cv_agent.h.
 */
#ifndef CV_CAUSAL_H
#define CV_CAUSAL_H

#include "../cv_arena.h"
#include "convoy_causal.h"

/* The agent's own state of a thread, in cv_causal_thread.working. */
struct cv_causal_work {
	uint32_t window;  /* the last one that it took notice of */
	uint32_t inside;  /* critical sections of the subject that it is in */
	uint32_t hooked;  /* in a hook: a sample must not touch what follows */
	uint32_t timer;   /* 1 + number of its own timer, 0 = none */
	uint32_t hooks;   /* since the time left was looked at */
	uint64_t mark_ns; /* CPU time up to which code was lengthened */
	uint64_t debt_ns; /* to be added yet */
	uint64_t base_ns; /* CPU time at base_ticks: valid while the thread is not switched out */
	uint64_t base_ticks;
};
_Static_assert(sizeof(struct cv_causal_work) <= sizeof(((struct cv_causal_thread *)0)->working), "working");

/* The calling thread's; NULL = it has none (yet). */
extern __thread struct cv_causal_thread *cv_causal_self
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct cv_causal_work *cv_causal_work(struct cv_causal_thread *t)
{
	return (struct cv_causal_work *)t->working;
}

extern struct cv_causal *cv_causal_file __attribute__((visibility("hidden")));

/* The control page is mapped a second time at a fixed place, so that looking at it is one load. */
#if defined(__x86_64__)
#define CV_CAUSAL_MAP 4096
#else
#define CV_CAUSAL_MAP 65536 /* the largest page size of the architecture */
#endif
union cv_causal_page {
	struct cv_causal_control control;
	char page[CV_CAUSAL_MAP];
} __attribute__((aligned(CV_CAUSAL_MAP)));
extern union cv_causal_page cv_causal_page __attribute__((visibility("hidden")));

static inline const struct cv_causal_control *cv_causal_control(void)
{
	return &cv_causal_page.control;
}

static inline uint32_t cv_causal_window(void)
{
	return __atomic_load_n(&cv_causal_page.control.window, __ATOMIC_ACQUIRE);
}

/* file.c: what is left of the window, ns; one that has nothing left is closed here, in case that
 * convoy is gone. */
uint64_t cv_causal_left(void);

/* Number of an object among the locks that are a window's subject; -1 = it is none of them. */
static inline int cv_causal_lock_number(const struct cv_causal_control *c, uint64_t object)
{
	uint32_t n = c->locks < CV_CAUSAL_LOCKS ? c->locks : CV_CAUSAL_LOCKS;

	for (uint32_t i = 0; c->subject & CV_CAUSAL_LOCK && i < n; i++)
		if (c->lock[i] == object)
			return (int)i;
	return -1;
}

/* The processor is told that the thread spins. */
static inline void cv_causal_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* clock.c: CPU time of the calling thread, ns, and code that takes so much of it. */
bool cv_causal_clock_init(void); /* true = without a system call */
uint64_t cv_causal_cpu_ns(struct cv_causal_thread *t);
uint64_t cv_causal_cpu_ns_exact(void);
void cv_causal_spin(struct cv_causal_thread *t, uint64_t ns);

/* sampling.c; arm: its timer, if it has to have one */
void cv_causal_sampling_init(struct cv_causal *f);
void cv_causal_sampling_arm(struct cv_causal_thread *t);
void cv_causal_sampling_disarm(struct cv_causal_thread *t);
void cv_causal_sampling_disarm_all(void);
void cv_causal_signal_give_back(void);

/* The range of the window's targets that an address lies in; NULL = it is in none. */
const struct cv_causal_range *cv_causal_range_at(const struct cv_causal_control *c, uint64_t pc);

/* algorithms.c: other ways to wait for a plain mutex. */
struct cv_causal_spinning {
	uint64_t until_ns; /* 0 = `most` spins */
	uint32_t most;
	uint32_t spins;
	uint32_t pauses; /* before the next look */
};

/* Begins; false = do not spin. Then once for each further look; false = long enough. At the end, when
 * the thread has the mutex, or has to sleep. */
bool cv_causal_spinning(struct cv_causal_spinning *s, uint64_t mutex);
bool cv_causal_spin_on(struct cv_causal_spinning *s);
void cv_causal_spun(const struct cv_causal_spinning *s);
void cv_causal_queue_slow(uint64_t mutex);
void cv_causal_dequeue_slow(uint64_t mutex);
void cv_causal_queues_forked(void);

/* Threads that were let through to a mutex in turn: releases must let the next one through, even
 * after the window. */
extern uint32_t cv_causal_queued __attribute__((visibility("hidden")));

/* lifted.c: sections of a plain mutex that threads enter together. lift: in front of taking it; true =
 * the section is entered. lower: in front of its release; true = it is left. */
bool cv_causal_lift_slow(uint64_t mutex, uint64_t ra);
bool cv_causal_lower_slow(uint64_t mutex);
void cv_causal_before_wait(uint64_t mutex); /* on a condition */
void cv_causal_lifted_forked(void);

/* Sections that the calling thread has entered so. */
extern __thread uint32_t cv_causal_lifted
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* measured.c: what the hooks do in windows. */
void cv_causal_enter_slow(void);
void cv_causal_leave_slow(void);
void cv_causal_acquired_slow(uint64_t object);
void cv_causal_released_slow(uint64_t object);
void cv_causal_code_ran(struct cv_causal_thread *t);

/* In front of an operation that may block, or let others go on: what ran so far is lengthened. */
static inline __attribute__((always_inline)) void cv_causal_enter(void)
{
	if (cv_unlikely(cv_causal_window()))
		cv_causal_enter_slow();
}

/* Behind it: code runs again. */
static inline __attribute__((always_inline)) void cv_causal_leave(void)
{
	if (cv_unlikely(cv_causal_window()))
		cv_causal_leave_slow();
}

static inline __attribute__((always_inline)) void cv_causal_acquired(uint64_t object)
{
	if (cv_unlikely(cv_causal_window()))
		cv_causal_acquired_slow(object);
}

static inline __attribute__((always_inline)) bool cv_causal_lift(uint64_t mutex, uint64_t ra)
{
	return cv_unlikely(cv_causal_window()) && cv_causal_lift_slow(mutex, ra);
}

static inline __attribute__((always_inline)) bool cv_causal_lower(uint64_t mutex)
{
	return cv_unlikely(cv_causal_lifted) && cv_causal_lower_slow(mutex);
}

/* In front of taking a plain mutex. */
static inline __attribute__((always_inline)) void cv_causal_queue(uint64_t mutex)
{
	if (cv_unlikely(cv_causal_window()))
		cv_causal_queue_slow(mutex);
}

/* Behind its release. */
static inline __attribute__((always_inline)) void cv_causal_dequeue(uint64_t mutex)
{
	if (cv_unlikely(__atomic_load_n(&cv_causal_queued, __ATOMIC_RELAXED)))
		cv_causal_dequeue_slow(mutex);
}

static inline __attribute__((always_inline)) void cv_causal_released(uint64_t object)
{
	struct cv_causal_thread *t = cv_causal_self;

	if (cv_likely(t != NULL))
		t->releases++;
	cv_causal_dequeue(object);
	if (cv_unlikely(cv_causal_window()))
		cv_causal_released_slow(object);
}

/* A wait on a condition gives the mutex up: that is no progress. */
static inline __attribute__((always_inline)) void cv_causal_suspended(uint64_t mutex)
{
	cv_causal_before_wait(mutex);
	cv_causal_dequeue(mutex);
	if (cv_unlikely(cv_causal_window()))
		cv_causal_released_slow(mutex);
}

/* Another thread is let go on by what this one does now. */
static inline __attribute__((always_inline)) void cv_causal_wakes(void)
{
	struct cv_causal_thread *t = cv_causal_self;

	if (cv_likely(t != NULL))
		t->wakes++;
	cv_causal_enter();
	cv_causal_leave();
}

/* The same by a bare futex. That is no progress: locks made of futexes wake only if a thread waits,
 * so that the number of wake-ups depends on the schedule. */
static inline __attribute__((always_inline)) void cv_causal_futex_wakes(void)
{
	cv_causal_enter();
	cv_causal_leave();
}

static inline void cv_causal_waits(enum cv_op op)
{
	struct cv_causal_thread *t = cv_causal_self;

	if (t && op == CV_OP_BARRIER_WAIT)
		t->arrivals++;
	cv_causal_enter();
}

/* Life. */
void cv_causal_begin(void);                       /* an arena is open */
void cv_causal_forked(void);                      /* in a fork child, before anything else */
void cv_causal_thread_begins(uint32_t tid);       /* the calling one */
void cv_causal_thread_ends(void);
struct cv_causal_thread *cv_causal_thread_sampled(void); /* its record, made now if it has none */

#endif
