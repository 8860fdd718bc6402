/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sections of a mutex that threads enter together, tried while a window asks for it: without the
 * mutex, or holding it together as readers. A program's data may be lost by that: convoy does it
 * only where its user has said so.
 *
 * The mutex stays what others see. Threads that read hold it as a group: the first one takes it by
 * the C library's own protocol, the last one releases it (Courtois, Heymans and Parnas, CACM 14(10),
 * 1971), so that tries, timed locks and sections that write exclude the whole group. Who has entered
 * a section in this way leaves it so, even after the window; who waits on a condition in it takes
 * the mutex first. Agent rules: ../cv_agent.h.
 */
#include <linux/futex.h>
#include <sys/syscall.h>

#include "../cv_real.h"
#include "../cv_sandbox.h"
#include "cv_causal.h"

#include "../cv_banned.h"

/* ---- what a thread has entered ---- */

#define LIFTED 4u /* sections inside of one another */
#define IN_GROUP 1u /* in the address of a mutex, whose lowest bits are 0 */

__thread uint32_t cv_causal_lifted;
static __thread uint64_t lifted[LIFTED] __attribute__((tls_model("initial-exec")));

static void enter(uint64_t mutex, uint64_t how)
{
	struct cv_causal_thread *t = cv_causal_self;

	lifted[cv_causal_lifted++] = mutex | how;
	if (t)
		__atomic_store_n(&t->tried, t->tried + 1, __ATOMIC_RELAXED);
}

/* Takes the innermost section of a mutex out; 0 = there is none. */
static uint64_t leave(uint64_t mutex)
{
	for (uint32_t i = cv_causal_lifted; i-- > 0;) {
		uint64_t found = lifted[i];

		if ((found & ~(uint64_t)IN_GROUP) != mutex)
			continue;
		memmove(&lifted[i], &lifted[i + 1], (--cv_causal_lifted - i) * sizeof(lifted[0]));
		return found;
	}
	return 0;
}

/* ---- readers ---- */

#define CHANGES UINT32_MAX /* the first one of a group is about to have the mutex */
#define LOOK_NS 10000000   /* between two looks of a sleeper */

static struct group {
	uint64_t mutex;
	uint32_t readers;
	uint32_t sleeping; /* in futex waits for `readers` */
} __attribute__((aligned(64))) groups[CV_CAUSAL_LOCKS];

static struct group *group_of(uint64_t mutex)
{
	for (uint32_t i = 0; i < CV_CAUSAL_LOCKS; i++) {
		struct group *g = &groups[i];
		uint64_t none = 0;

		if (__atomic_load_n(&g->mutex, __ATOMIC_ACQUIRE) == mutex ||
		    __atomic_compare_exchange_n(&g->mutex, &none, mutex, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE) ||
		    none == mutex)
			return g;
	}
	return NULL;
}

static void wait_for_first(struct group *g, uint64_t spin_until)
{
	/* Who is to wake us may have got a sandbox meanwhile, which forbids it: we look for ourselves. */
	struct timespec most = { .tv_nsec = LOOK_NS };

	if (cv_is_quiet() || cv_now() < spin_until) { /* a sandbox allows what the program needs */
		cv_causal_relax();
		return;
	}
	__atomic_fetch_add(&g->sleeping, 1, __ATOMIC_SEQ_CST);
	cv_syscall(SYS_futex, (long)&g->readers, FUTEX_WAIT_PRIVATE, CHANGES, (long)&most, 0, 0);
	__atomic_fetch_sub(&g->sleeping, 1, __ATOMIC_SEQ_CST);
}

static void become_first(struct group *g)
{
	cv_real(pthread_mutex_lock)((pthread_mutex_t *)(uintptr_t)g->mutex);
	__atomic_store_n(&g->readers, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&g->sleeping, __ATOMIC_SEQ_CST) && !cv_is_quiet())
		cv_syscall(SYS_futex, (long)&g->readers, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

static void join(struct group *g, uint32_t spin_ns)
{
	uint64_t spin_until = 0;
	uint32_t n = __atomic_load_n(&g->readers, __ATOMIC_RELAXED);

	for (;; n = __atomic_load_n(&g->readers, __ATOMIC_RELAXED)) {
		if (n == CHANGES) {
			if (!spin_until)
				spin_until = cv_now() + spin_ns;
			wait_for_first(g, spin_until);
		} else if (__atomic_compare_exchange_n(&g->readers, &n, n ? n + 1 : CHANGES, true,
						       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			if (n == 0)
				become_first(g);
			return;
		}
	}
}

/* The next first one may come before the mutex is released: it waits for that. */
static void part(struct group *g)
{
	if (__atomic_sub_fetch(&g->readers, 1, __ATOMIC_ACQ_REL) == 0)
		cv_real(pthread_mutex_unlock)((pthread_mutex_t *)(uintptr_t)g->mutex);
}

/* ---- conditions ---- */

/* Mutexes with which threads have waited on a condition, one bit by hash: without the mutex a waiter
 * would miss its wake-up between its look and its wait. */
static uint64_t waited_with[64];

static uint64_t *word_of(uint64_t mutex, uint64_t *bit)
{
	uint64_t hash = mutex * 0x9E3779B97F4A7C15ull;

	*bit = 1ull << (hash >> 58);
	return &waited_with[hash >> 52 & 63];
}

static bool is_waited_with(uint64_t mutex)
{
	uint64_t bit, *word = word_of(mutex, &bit);

	return __atomic_load_n(word, __ATOMIC_RELAXED) & bit;
}

void cv_causal_before_wait(uint64_t mutex)
{
	uint64_t bit, *word = word_of(mutex, &bit), how;
	int saved = errno;

	if (cv_unlikely(!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit)))
		__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
	how = cv_unlikely(cv_causal_lifted) ? leave(mutex) : 0;
	if (how & IN_GROUP)
		part(group_of(mutex));
	if (how)
		cv_real(pthread_mutex_lock)((pthread_mutex_t *)(uintptr_t)mutex);
	errno = saved;
}

/* ---- what hooks call ---- */

/*
 * How a section that is entered at `ra` is to be entered: the window's algorithm, 0 = as it is. What
 * the page says is of one window only if that one is still open afterwards: half of it from the next
 * one could let a thread in that nobody asked to be let in.
 */
static uint32_t tried(const struct cv_causal_control *c, uint64_t mutex, uint64_t ra)
{
	uint32_t window = cv_causal_window();
	uint32_t algorithm = __atomic_load_n(&c->algorithm, __ATOMIC_RELAXED);
	bool is_subject = c->estimator == CV_CAUSAL_TRY && algorithm >= CV_CAUSAL_SHARED &&
			  cv_causal_lock_number(c, mutex) >= 0 &&
			  (!(c->subject & CV_CAUSAL_CODE) || cv_causal_range_at(c, ra - 1));

	if (!window || !is_subject || !cv_causal_left())
		return 0;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return cv_causal_window() == window ? algorithm : 0;
}

bool cv_causal_lift_slow(uint64_t mutex, uint64_t ra)
{
	const struct cv_causal_control *c = cv_causal_control();
	int saved = errno;
	uint32_t spin_ns = c->spin_ns;
	uint32_t algorithm = tried(c, mutex, ra);
	struct group *g = NULL;

	if (!algorithm || cv_causal_lifted == LIFTED || cv_is_quiet())
		return false;
	if (is_waited_with(mutex)) {
		__atomic_fetch_or(&cv_causal_file->flags, CV_CAUSAL_CONDITION, __ATOMIC_RELAXED);
		return false;
	}
	if (algorithm == CV_CAUSAL_SHARED) {
		g = group_of(mutex);
		if (!g)
			return false;
		join(g, spin_ns);
	}
	enter(mutex, g ? IN_GROUP : 0);
	errno = saved;
	return true;
}

bool cv_causal_lower_slow(uint64_t mutex)
{
	int saved = errno;
	uint64_t how = leave(mutex);

	if (!how)
		return false;
	if (cv_causal_self)
		cv_causal_self->releases++;
	if (how & IN_GROUP)
		part(group_of(mutex));
	errno = saved;
	return true;
}

/* In the child of a fork a group has no more readers than its one thread. */
void cv_causal_lifted_forked(void)
{
	for (uint32_t i = 0; i < CV_CAUSAL_LOCKS; i++) {
		struct group *g = &groups[i];

		g->readers = 0;
		g->sleeping = 0;
		for (uint32_t k = 0; k < cv_causal_lifted; k++)
			g->readers += lifted[k] == (g->mutex | IN_GROUP);
	}
}
