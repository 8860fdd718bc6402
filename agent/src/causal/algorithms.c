/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Other ways to wait for a mutex, tried while a window asks for one.
 *
 * The mutex stays what it is: whoever enters its section holds it, taken by the C library's own
 * protocol, whatever the others do. What changes is how threads wait in front of it, so that a
 * window may begin and end at any moment, and a program that waits on conditions, tries, or unlocks
 * in another thread keeps its semantics. Spinning for as long as sleeping would cost: Karlin, Li,
 * Manasse and Owicki, SOSP'91. Agent rules: ../cv_agent.h.
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include "../cv_sandbox.h"
#include "cv_causal.h"

#include "../cv_banned.h"

/* A queue that does not move for so long is given up: its mutex is held for longer than a queue is
 * worth, or a thread has come to its end with it. */
#define STANDSTILL_NS 100000000u

#define SPINS_MOST 100u /* as in the C library: glibc.pthread.mutex_spin_count */

/* Number of the mutex among the subjects of a window that tries an algorithm, and goes on; -1 = it
 * is none. */
static int subject(const struct cv_causal_control *c, uint64_t mutex)
{
	int number = c->estimator == CV_CAUSAL_TRY ? cv_causal_lock_number(c, mutex) : -1;

	return number >= 0 && cv_causal_left() ? number : -1;
}

static void count(void)
{
	struct cv_causal_thread *t = cv_causal_self;

	if (t)
		__atomic_store_n(&t->tried, t->tried + 1, __ATOMIC_RELAXED);
}

/* ---- spinning ---- */

/* How long spinning has taken when it helped, a moving average (glibc's __spins); of the mutexes of
 * one name together. */
static uint32_t usual_spins;

bool cv_causal_spinning(struct cv_causal_spinning *s, uint64_t mutex)
{
	const struct cv_causal_control *c = cv_causal_control();

	if (subject(c, mutex) < 0 || c->algorithm >= CV_CAUSAL_FIFO)
		return false;
	count();
	*s = (struct cv_causal_spinning){ .pauses = 1 };
	if (c->algorithm == CV_CAUSAL_SPIN) {
		s->until_ns = cv_now() + c->spin_ns;
	} else {
		s->most = 2 * __atomic_load_n(&usual_spins, __ATOMIC_RELAXED) + 10;
		if (s->most > SPINS_MOST)
			s->most = SPINS_MOST;
	}
	return true;
}

bool cv_causal_spin_on(struct cv_causal_spinning *s)
{
	if (s->until_ns ? cv_now() >= s->until_ns : s->spins + s->pauses >= s->most)
		return false;
	for (uint32_t i = 0; i < s->pauses; i++)
		cv_causal_relax();
	s->spins += s->pauses;
	if (s->pauses < SPINS_MOST / 4)
		s->pauses *= 2;
	return true;
}

void cv_causal_spun(const struct cv_causal_spinning *s)
{
	uint32_t usual;

	if (s->until_ns)
		return;
	/* Two threads at once lose one of two samples of an average. */
	usual = __atomic_load_n(&usual_spins, __ATOMIC_RELAXED);
	usual = (uint32_t)((int64_t)usual + ((int64_t)s->spins - (int64_t)usual) / 8);
	__atomic_store_n(&usual_spins, usual, __ATOMIC_RELAXED);
}

/* ---- first in, first out ---- */

/* In front of a mutex: one thread at a time is let through, in the order of tickets, and the next
 * one when the mutex is released. */
static struct queue {
	uint64_t mutex;
	uint32_t next;     /* ticket of the next thread that comes */
	uint32_t serving;  /* ticket of the one that is let through: what others wait for */
	uint32_t inside;   /* let through, and to be followed by another one at a release */
	uint32_t sleeping; /* in futex waits for `serving` */
	uint32_t broken;
} __attribute__((aligned(64))) queues[CV_CAUSAL_LOCKS];

uint32_t cv_causal_queued;

static struct queue *queue_of(int i, uint64_t mutex)
{
	struct queue *q = &queues[i];
	uint64_t none = 0;

	if (__atomic_load_n(&q->mutex, __ATOMIC_ACQUIRE) == mutex ||
	    __atomic_compare_exchange_n(&q->mutex, &none, mutex, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE) ||
	    none == mutex)
		return q;
	return NULL;
}

/* One bit of a futex's bitset by ticket, so that a release wakes the one whose turn it is. */
static long bit(uint32_t ticket)
{
	return (long)(1u << (ticket & 31));
}

/* False = nothing has moved. */
static bool sleep_for_turn(struct queue *q, uint32_t ticket, uint32_t seen)
{
	uint64_t until = cv_now() + STANDSTILL_NS;
	struct timespec ts = { (time_t)(until / 1000000000u), (long)(until % 1000000000u) };
	long r;

	__atomic_fetch_add(&q->sleeping, 1, __ATOMIC_SEQ_CST);
	r = cv_syscall(SYS_futex, (long)&q->serving, FUTEX_WAIT_BITSET_PRIVATE, seen, (long)&ts, 0,
		       bit(ticket));
	__atomic_fetch_sub(&q->sleeping, 1, __ATOMIC_SEQ_CST);
	return r != -ETIMEDOUT || __atomic_load_n(&q->serving, __ATOMIC_ACQUIRE) != seen;
}

static void give_up(struct queue *q)
{
	__atomic_store_n(&q->broken, 1, __ATOMIC_RELEASE);
	if (cv_causal_file)
		__atomic_fetch_or(&cv_causal_file->flags, CV_CAUSAL_FIFO_BROKEN, __ATOMIC_RELAXED);
	if (!cv_is_quiet()) /* else sleepers look for themselves */
		cv_syscall(SYS_futex, (long)&q->serving, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

/* False = it goes on without a turn. */
static bool waits_for_turn(struct queue *q, uint32_t ticket, uint32_t spin_ns)
{
	uint64_t spin_until = 0;

	for (;;) {
		uint32_t serving = __atomic_load_n(&q->serving, __ATOMIC_SEQ_CST);

		if (serving == ticket)
			return true;
		if (__atomic_load_n(&q->broken, __ATOMIC_ACQUIRE))
			return false;
		if (!spin_until) {
			count();
			spin_until = cv_now() + spin_ns;
		}
		if (cv_now() < spin_until)
			cv_causal_relax();
		else if (cv_is_quiet()) /* a sandbox allows what the program needs, not what we do */
			give_up(q);
		else if (!sleep_for_turn(q, ticket, serving))
			give_up(q);
	}
}

void cv_causal_queue_slow(uint64_t mutex)
{
	const struct cv_causal_control *c = cv_causal_control();
	int saved = errno;
	int i = subject(c, mutex);
	struct queue *q = i >= 0 && c->algorithm == CV_CAUSAL_FIFO ? queue_of(i, mutex) : NULL;

	if (!q || cv_is_quiet() || __atomic_load_n(&q->broken, __ATOMIC_ACQUIRE))
		return;
	if (waits_for_turn(q, __atomic_fetch_add(&q->next, 1, __ATOMIC_SEQ_CST), c->spin_ns)) {
		__atomic_fetch_add(&cv_causal_queued, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&q->inside, 1, __ATOMIC_RELEASE);
	}
	errno = saved;
}

/* One of `inside`, if there is one. A release by a thread that has not queued may take it: the
 * order is then not kept once, and as many are let through as release. */
static bool take_inside(struct queue *q)
{
	uint32_t n = __atomic_load_n(&q->inside, __ATOMIC_ACQUIRE);

	while (n)
		if (__atomic_compare_exchange_n(&q->inside, &n, n - 1, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

void cv_causal_dequeue_slow(uint64_t mutex)
{
	int saved = errno;

	for (uint32_t i = 0; i < CV_CAUSAL_LOCKS; i++) {
		struct queue *q = &queues[i];
		uint32_t serving;

		if (__atomic_load_n(&q->mutex, __ATOMIC_ACQUIRE) != mutex || !take_inside(q))
			continue;
		__atomic_fetch_sub(&cv_causal_queued, 1, __ATOMIC_RELAXED);
		serving = __atomic_add_fetch(&q->serving, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&q->sleeping, __ATOMIC_SEQ_CST) && !cv_is_quiet())
			cv_syscall(SYS_futex, (long)&q->serving, FUTEX_WAKE_BITSET_PRIVATE, INT32_MAX, 0, 0,
				   bit(serving));
	}
	errno = saved;
}

/* Those who queue are the parent's threads. */
void cv_causal_queues_forked(void)
{
	memset(queues, 0, sizeof(queues));
	cv_causal_queued = 0;
}
