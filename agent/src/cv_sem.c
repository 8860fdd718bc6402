/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Semaphores. Agent rules: cv_agent.h.
 *
 * Where a thread posts what it has taken itself, the semaphore is a lock or hands out what must be given back: it is held
 * in between, and that time is recorded like a lock's. Where others post, the wait was for an event, and nothing is held.
 * Which it is shows in use: a thread notes the few semaphores that it takes, and what became of its tokens.
 */
#include "cv_frames.h"
#include "cv_real.h"
#include "cv_trace.h"
#include "cv_try.h"
#include "cv_wait.h"

#include "cv_banned.h"

/* What a thread knows of a semaphore, in the low bits of its address. */
#define TAKEN 1u      /* this thread has a token of it, as far as it knows */
#define GIVES_BACK 2u /* and posted the one before itself */
#define KNOWN 3ull

/* What the thread knows of it: the place of the semaphore, or of another one. */
static inline uint64_t *known_of(struct cv_thread *t, uint64_t sem)
{
	return &cv_work(t)->sems[cv_slot_hash(sem, 0) % CV_SEMS];
}

static inline bool gives_back(struct cv_thread *t, uint64_t sem)
{
	return *known_of(t, sem) == (sem | GIVES_BACK);
}

/* It has taken a token. */
static inline void taken(struct cv_thread *t, uint64_t sem)
{
	uint64_t *known = known_of(t, sem);

	if (cv_unlikely((*known & ~KNOWN) != sem))
		*known = sem;
	/* Somebody else posted the last one: these waits are for an event. */
	if (*known & TAKEN) {
		*known = sem;
		if (cv_unlikely(cv_hold_any(t)))
			cv_hold_forget(t, sem);
	}
	*known |= TAKEN;
}

/* It is about to post. */
static inline void given(struct cv_thread *t, uint64_t sem)
{
	uint64_t *known = known_of(t, sem);

	if ((*known & ~KNOWN) == sem && (*known & TAKEN))
		*known = sem | GIVES_BACK;
}

/* The value is the low half of the first word, the waiters are in the high one. */
static inline unsigned sem_value(const sem_t *s)
{
	return (unsigned)__atomic_load_n((const uint64_t *)s, __ATOMIC_RELAXED);
}

static inline unsigned sem_waiters(const sem_t *s)
{
	return (unsigned)(__atomic_load_n((const uint64_t *)s, __ATOMIC_RELAXED) >> 32);
}

struct sem_wait_call {
	enum cv_op op;
	bool with_clock;
	clockid_t clock;
	const struct timespec *deadline;
};

static int sem_real(sem_t *s, const struct sem_wait_call *a)
{
	if (!a->deadline)
		return cv_real(sem_wait)(s);
	if (a->with_clock)
		return cv_real(sem_clockwait)(s, a->clock, a->deadline);
	return cv_real(sem_timedwait)(s, a->deadline);
}

/* There is a token at hand, if nobody is faster. `detail`: the call is a sample, of this entry. */
static int sem_take(struct cv_thread *t, sem_t *s, const struct sem_wait_call *a, struct cv_entry *detail)
{
	bool held = gives_back(t, cv_addr(s));
	uint64_t before_ns = detail ? cv_now() : 0;
	int r = sem_real(s, a);

	if (r != 0)
		return r;
	taken(t, cv_addr(s));
	if (cv_unlikely(detail != NULL) && held) {
		uint64_t now = cv_now();

		cv_hold_sampled(t, cv_addr(s), a->op, detail, now, (uint32_t)(now - before_ns));
	}
	return 0;
}

static int sem_acquire(sem_t *s, uint64_t ra, const struct sem_wait_call *a)
{
	struct cv_thread *t = cv_thread();
	struct cv_entry *detail = NULL;
	struct cv_blocking b;
	uint64_t wait_ns;
	bool held;
	int saved = errno;
	int r;

	if (!t)
		return sem_real(s, a);
	if (cv_count(t, cv_addr(s), ra, a->op, false))
		detail = cv_sample(t, cv_addr(s), a->op);
	if (sem_value(s)) {
		errno = saved;
		r = sem_take(t, s, a, detail);
		if (r == 0)
			CV_EVENT(cv_event_in_window(CV_EV_SEM_ACQUIRED, CV_OBJECT_SEM, cv_addr(s), ra, 0));
		return r;
	}
	held = gives_back(t, cv_addr(s));
	cv_block_begin(&b, t, cv_addr(s), ra, CV_OBJECT_SEM, a->op, NULL);
	errno = saved;
	r = sem_real(s, a);
	saved = errno;
	wait_ns = cv_block_end(&b);
	if (r != 0)
		cv_count_failed(t, cv_addr(s), ra, a->op);
	else
		taken(t, cv_addr(s));
	if (r == 0 && held)
		cv_block_held(&b, wait_ns);
	else
		cv_block_commit(&b, wait_ns, r != 0);
	errno = saved;
	return r;
}

CV_EXPORT int sem_wait(sem_t *s)
{
	return CV_HOOK(CV_OP_SEM_WAIT, s, sem_acquire(s, CV_RA, (&(struct sem_wait_call){ .op = CV_OP_SEM_WAIT })));
}

CV_EXPORT int sem_timedwait(sem_t *restrict s, const struct timespec *restrict deadline)
{
	return CV_HOOK(
		CV_OP_SEM_TIMEDWAIT, s,
		sem_acquire(s, CV_RA, (&(struct sem_wait_call){ .op = CV_OP_SEM_TIMEDWAIT, .deadline = deadline })));
}

CV_EXPORT int sem_clockwait(sem_t *restrict s, clockid_t clock, const struct timespec *restrict deadline)
{
	return sem_acquire(s, CV_RA,
			   &(struct sem_wait_call){ .op = CV_OP_SEM_TIMEDWAIT,
						    .with_clock = true,
						    .clock = clock,
						    .deadline = deadline });
}

static inline __attribute__((always_inline)) int sem_try(sem_t *s, uint64_t ra)
{
	struct cv_thread *t = cv_thread();
	struct cv_try y;
	bool held;
	int saved, r;

	if (!t)
		return cv_real(sem_trywait)(s);
	cv_try_begin(&y, t, cv_addr(s), ra, CV_OP_SEM_TRYWAIT);
	r = cv_real(sem_trywait)(s);
	saved = errno;
	if (r == 0) {
		held = gives_back(t, cv_addr(s));
		taken(t, cv_addr(s));
		cv_try_got(&y, held);
		CV_EVENT(cv_event_in_window(CV_EV_SEM_ACQUIRED, CV_OBJECT_SEM, cv_addr(s), ra, 0));
	} else {
		cv_try_failed(&y);
		CV_EVENT(cv_event_try_failed(&CV_ABOUT(CV_OBJECT_SEM, cv_addr(s), ra)));
	}
	errno = saved;
	return r;
}

CV_EXPORT int sem_trywait(sem_t *s)
{
	return CV_HOOK(r_ == 0 ? CV_OP_SEM_TRYWAIT : CV_OP_NONE, s, sem_try(s, CV_RA));
}

static inline __attribute__((always_inline)) int sem_give(sem_t *s, uint64_t ra)
{
	struct cv_thread *t = cv_thread();
	uint64_t stamp CV_EVENT_ONLY = 0;
	int saved = errno;
	bool timed;
	int r;

	if (!t)
		return cv_real(sem_post)(s);
	CV_EVENT(stamp = cv_event_wake_time());
	CV_CAUSAL(cv_causal_wakes());
	cv_count(t, cv_addr(s), ra, CV_OP_SEM_POST, false);
	timed = cv_unlikely(cv_hold_any(t)) && cv_hold_release(t, cv_addr(s));
	given(t, cv_addr(s));
	if (sem_waiters(s))
		cv_object_woken(cv_addr(s), CV_OBJECT_SEM);
	errno = saved;
	r = cv_real(sem_post)(s);
	CV_EVENT(cv_event_wakes(stamp, CV_EV_SEM_POST, CV_OBJECT_SEM, cv_addr(s), ra));
	if (cv_unlikely(timed)) {
		saved = errno;
		cv_hold_commit(t, cv_addr(s));
		errno = saved;
	}
	return r;
}

CV_EXPORT int sem_post(sem_t *s)
{
	return CV_HOOK(CV_OP_SEM_POST, s, sem_give(s, CV_RA));
}

CV_EXPORT int sem_init(sem_t *s, int shared, unsigned value)
{
	int r = cv_real(sem_init)(s, shared, value);

	if (r == 0 && cv_self)
		cv_object_init(cv_addr(s), CV_OBJECT_SEM, value);
	return r;
}

CV_EXPORT int sem_destroy(sem_t *s)
{
	struct cv_thread *t = cv_self;
	int saved = errno;

	if (cv_hold_any(t))
		cv_hold_forget(t, cv_addr(s));
	cv_object_destroy(cv_addr(s));
	errno = saved;
	return cv_real(sem_destroy)(s);
}
