/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What every file of the agent shares. The agent runs inside the profiled program, so:
 *
 *  1. It wraps the C library's functions and never replaces their algorithms. The one exception is
 *     the uncontended path of a plain mutex (cv_mutex.c), whose layout and futex protocol are
 *     frozen by static initialisers, and which a self-test must pass first.
 *  2. Nothing slow happens while the program holds a lock: clock reads and stores at most. Stacks
 *     are taken before blocking or after release; results are kept in cv_held until the unlock.
 *  3. Semantics stay: errno, cancellation, fairness, fork, signal handlers.
 *  4. No allocation, no stdio, no lock, no libc call that may do either, in a hook.
 *  5. Every lost record bumps a counter (cv_drop).
 *  6. A hook that runs before the agent is ready passes through to the real function.
 */
#ifndef CV_AGENT_H
#define CV_AGENT_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "convoy_abi.h"

#define CV_EXPORT __attribute__((visibility("default")))
#define CV_NOINLINE __attribute__((noinline))
#define CV_COLD __attribute__((noinline, cold))
#define cv_likely(x) __builtin_expect(!!(x), 1)
#define cv_unlikely(x) __builtin_expect(!!(x), 0)

/* The caller of the hook: the call site. Only in the exported function itself. */
#define CV_RA ((uint64_t)(uintptr_t)__builtin_return_address(0))

/* An object is known by where it is. */
static inline uint64_t cv_addr(const volatile void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* This thread's record; NULL before registration and after the thread's last destructor. Initial-exec,
 * so that reading it never calls into the loader (which may allocate). */
extern __thread struct cv_thread *cv_self __attribute__((tls_model("initial-exec"), visibility("hidden")));

#define CV_SEMS 8
/* The agent's working state of a thread, in cv_thread.scratch. */
struct cv_work {
	int32_t countdown;    /* operations until the next sample; a signal handler may take it below 0 */
	uint32_t rng;
	uint32_t drawn;       /* samples of pairs that have a slot, since the last of one that has none */
	uint32_t weight;      /* calls that the latest sample stands for, over the session's period */
	uint32_t sites_used;
	uint32_t entry_count; /* entries in `index` */
	uint32_t index_mask;
	uint64_t busy;        /* frame that is inside the tables: a signal handler must stay out; 0 = none */
	cv_ref *index;        /* open-addressing index of this thread's entries */
	struct cv_block *entries; /* blocks being filled */
	struct cv_block *waits;
	struct cv_site *site; /* the site counted last in the site table */
	uint64_t spin_obj;    /* lock this thread tries in vain, see cv_try.h */
	uint64_t spin_last_ns;
	uint64_t spin_busy_ns;
	cv_ref spin_detail;
	uint32_t spin_tries; /* since spin_last_ns */
	uint32_t pair_count;  /* PAIR entries */
	uint32_t index_full;  /* there was no memory for a larger index */
	uint64_t sems[CV_SEMS]; /* semaphores that this thread takes, see cv_sem.c */
	uint64_t cpu_base_ns, user_base_ns, sys_base_ns; /* of earlier lives of the record */
	uint64_t vol_base, invol_base;
	void *(*start)(void *);
	void *arg;
	int (*start_c11)(void *);
#ifdef CV_EVENTS
	cv_ref events; /* the thread's struct cv_event_writer */
#endif
};
_Static_assert(sizeof(struct cv_work) <= sizeof(((struct cv_thread *)0)->scratch), "scratch");

static inline struct cv_work *cv_work(struct cv_thread *t)
{
	return (struct cv_work *)t->scratch;
}

/* True if the hook that claimed the tables is gone: a signal handler jumped out of it. Were we in a
 * handler above it, the kernel's signal frame, of more than 512 bytes, would lie between us. */
static inline bool cv_abandoned(const struct cv_thread *t, uint64_t claimed_at, uint64_t here)
{
	return here >= t->stack_lo && here < t->stack_hi && claimed_at >= t->stack_lo && claimed_at < t->stack_hi &&
	       here + 512 > claimed_at;
}

/* Claim this thread's tables. False = a hook below us in the same thread has them (we are in a signal
 * handler): the operation goes on unrecorded, and is counted. */
void cv_drop(enum cv_drop reason);
bool cv_on_signal_stack(void);
static inline bool cv_enter(struct cv_thread *t)
{
	struct cv_work *w = cv_work(t);
	uint64_t here = (uint64_t)__builtin_frame_address(0);

	/* A signal stack may itself lie on the thread's, above all of it. */
	if (cv_unlikely(w->busy) && (!cv_abandoned(t, w->busy, here) || cv_on_signal_stack())) {
		cv_drop(CV_DROP_REENTRANT);
		return false;
	}
	w->busy = here;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

static inline void cv_leave(struct cv_thread *t)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cv_work(t)->busy = 0;
}

/* Fetch a line that is about to be written. Without -mprfchw gcc makes a prefetch for reading of its
 * builtin, and the line would be asked for twice; processors that lack the instruction skip it. */
static inline void cv_prefetch_write(const void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/* Raw system call: no errno, not a cancellation point. */
static inline long cv_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "unsupported architecture"
#endif
}

#endif
