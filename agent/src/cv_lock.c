/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reader-writer locks and spin locks. Agent rules: cv_agent.h. */
#include "cv_frames.h"
#include "cv_real.h"
#include "cv_trace.h"
#include "cv_try.h"
#include "cv_wait.h"

#include "cv_banned.h"

/* ---- reader-writer locks ----
 *
 * The C library's word `__readers` (since 2.25): bit 0: write phase, bit 1: a writer has or is about to
 * have it, bit 2: readers wait; the rest: number of readers. Peeking costs one load of a line that the
 * call is about to write anyway; a lock that is taken between the peek and the call is a
 * wait that is missed, for some nanoseconds in which that can happen. */
#define RW_WRPHASE 1u
#define RW_WRLOCKED 2u
#define RW_READER_SHIFT 3

static inline bool rw_blocks(const pthread_rwlock_t *l, bool writer)
{
	unsigned r = __atomic_load_n(&l->__data.__readers, __ATOMIC_RELAXED);

	if (writer)
		return (r & RW_WRLOCKED) || (r >> RW_READER_SHIFT && !(r & RW_WRPHASE));
	/* Read phase: only the writer-preferring kind makes a reader wait for a waiting writer. Write
	 * phase without a writer: the reader starts the read phase itself. */
	if (!(r & RW_WRPHASE))
		return (r & RW_WRLOCKED) && r >> RW_READER_SHIFT &&
		       l->__data.__flags == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
	return r & RW_WRLOCKED;
}

struct rw_acquire {
	enum cv_op op;
	bool writer;
	bool with_clock;
	clockid_t clock;
	const struct timespec *deadline; /* NULL = none */
};

static inline __attribute__((always_inline)) int rw_real(pthread_rwlock_t *l, const struct rw_acquire *a)
{
	if (!a->deadline)
		return a->writer ? cv_real(pthread_rwlock_wrlock)(l) : cv_real(pthread_rwlock_rdlock)(l);
	if (a->with_clock)
		return a->writer ? cv_real(pthread_rwlock_clockwrlock)(l, a->clock, a->deadline) :
				   cv_real(pthread_rwlock_clockrdlock)(l, a->clock, a->deadline);
	return a->writer ? cv_real(pthread_rwlock_timedwrlock)(l, a->deadline) :
			   cv_real(pthread_rwlock_timedrdlock)(l, a->deadline);
}

static CV_COLD int rw_waiting(struct cv_thread *t, pthread_rwlock_t *l, uint64_t ra, const struct rw_acquire *a)
{
	struct cv_blocking b;
	uint64_t wait_ns;
	int saved = errno;
	int r;

	cv_block_begin(&b, t, cv_addr(l), ra, CV_OBJECT_RWLOCK, a->op, &l->__data.__cur_writer);
	errno = saved;
	r = rw_real(l, a);
	wait_ns = cv_block_end(&b);
	if (r == 0) {
		cv_last_set(t, cv_addr(l), ra);
		cv_block_held(&b, wait_ns);
	} else {
		cv_count_undone(t, cv_addr(l), ra, a->op);
		if (r == ETIMEDOUT) /* else it was refused: EDEADLK, EINVAL */
			cv_block_commit(&b, wait_ns, true);
		else
			CV_EVENT(cv_event_wait_ended(&b, true));
	}
	return r;
}

static CV_COLD int rw_sampled(struct cv_thread *t, pthread_rwlock_t *l, uint64_t ra, const struct rw_acquire *a)
{
	int saved = errno;
	struct cv_entry *detail = cv_sample(t, cv_addr(l), a->op);
	uint64_t before, after;
	int r;

	errno = saved;
	if (rw_blocks(l, a->writer))
		return rw_waiting(t, l, ra, a);
	before = cv_now();
	r = rw_real(l, a);
	after = cv_now();
	if (r == 0) {
		cv_last_set(t, cv_addr(l), ra);
		cv_hold_sampled(t, cv_addr(l), a->op, detail, after, (uint32_t)(after - before));
	} else {
		cv_count_undone(t, cv_addr(l), ra, a->op);
	}
	return r;
}

static inline __attribute__((always_inline)) int rw_lock(pthread_rwlock_t *l, uint64_t ra, const struct rw_acquire *a)
{
	struct cv_thread *t = cv_thread();
	int r;

	cv_prefetch_write(l); /* to be written: a look at it first would fetch the line twice */
	if (cv_unlikely(!t))
		return rw_real(l, a);
	if (cv_unlikely(cv_count(t, cv_addr(l), ra, a->op, false)))
		return rw_sampled(t, l, ra, a);
	if (cv_unlikely(rw_blocks(l, a->writer)))
		return rw_waiting(t, l, ra, a);
	r = rw_real(l, a);
	if (cv_unlikely(r != 0))
		cv_count_undone(t, cv_addr(l), ra, a->op);
	else if (a->writer)
		cv_last_set(t, cv_addr(l), ra);
	return r;
}

static int rw_try(pthread_rwlock_t *l, uint64_t ra, enum cv_op op, cv_type_pthread_rwlock_tryrdlock real)
{
	struct cv_thread *t = cv_thread();
	struct cv_try y;
	int r;

	if (!t)
		return real(l);
	cv_try_begin(&y, t, cv_addr(l), ra, op);
	r = real(l);
	if (r == 0)
		cv_try_got(&y, true);
	else
		cv_try_failed(&y);
	return r;
}

CV_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	static const struct rw_acquire read = { .op = CV_OP_RWLOCK_RD };

	return CV_ACQUIRE(CV_OP_RWLOCK_RD, l, r_ == 0, rw_lock(l, CV_RA, &read));
}

CV_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	static const struct rw_acquire write = { .op = CV_OP_RWLOCK_WR, .writer = true };

	return CV_ACQUIRE(CV_OP_RWLOCK_WR, l, r_ == 0, rw_lock(l, CV_RA, &write));
}

CV_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *l, const struct timespec *deadline)
{
	return CV_ACQUIRE(CV_OP_RWLOCK_TIMEDRD, l, r_ == 0,
			  rw_lock(l, CV_RA, (&(struct rw_acquire){ .op = CV_OP_RWLOCK_TIMEDRD, .deadline = deadline })));
}

CV_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *l, const struct timespec *deadline)
{
	return CV_ACQUIRE(
		CV_OP_RWLOCK_TIMEDWR, l, r_ == 0,
		rw_lock(l, CV_RA,
			(&(struct rw_acquire){ .op = CV_OP_RWLOCK_TIMEDWR, .writer = true, .deadline = deadline })));
}

CV_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *deadline)
{
	return CV_ACQUIRE(CV_OP_RWLOCK_TIMEDRD, l, r_ == 0,
			  rw_lock(l, CV_RA,
				  (&(struct rw_acquire){ .op = CV_OP_RWLOCK_TIMEDRD,
							 .with_clock = true,
							 .clock = clock,
							 .deadline = deadline })));
}

CV_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *deadline)
{
	return CV_ACQUIRE(CV_OP_RWLOCK_TIMEDWR, l, r_ == 0,
			  rw_lock(l, CV_RA,
				  (&(struct rw_acquire){ .op = CV_OP_RWLOCK_TIMEDWR,
							 .writer = true,
							 .with_clock = true,
							 .clock = clock,
							 .deadline = deadline })));
}

CV_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *l)
{
	return CV_ACQUIRE(CV_OP_RWLOCK_TRYRD, l, r_ == 0,
			  rw_try(l, CV_RA, CV_OP_RWLOCK_TRYRD, cv_real(pthread_rwlock_tryrdlock)));
}

CV_EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *l)
{
	return CV_ACQUIRE(CV_OP_RWLOCK_TRYWR, l, r_ == 0,
			  rw_try(l, CV_RA, CV_OP_RWLOCK_TRYWR, cv_real(pthread_rwlock_trywrlock)));
}

/* This thread's release will let others in that wait: the writer's always, a reader's if it is the last
 * one and a writer waits. */
static bool rw_wakes(const struct cv_thread *t, const pthread_rwlock_t *l)
{
	unsigned readers = __atomic_load_n(&l->__data.__readers, __ATOMIC_RELAXED) >> RW_READER_SHIFT;
	unsigned writers = __atomic_load_n(&l->__data.__writers, __ATOMIC_RELAXED);
	int writer = __atomic_load_n(&l->__data.__cur_writer, __ATOMIC_RELAXED);

	return writer == (int)t->tid ? readers || writers : writer == 0 && writers && readers == 1;
}

/* errno is looked up by a call: not on the way of an unlock that finds nobody waiting. */
static CV_COLD void rw_woken(pthread_rwlock_t *l)
{
	int saved = errno;

	cv_object_woken(cv_addr(l), CV_OBJECT_RWLOCK);
	errno = saved;
}

static CV_COLD void rw_commit(struct cv_thread *t, pthread_rwlock_t *l)
{
	int saved = errno;

	cv_hold_commit(t, cv_addr(l));
	errno = saved;
}

static inline __attribute__((always_inline)) int rw_unlock(pthread_rwlock_t *l)
{
	struct cv_thread *t = cv_self;
	bool timed;
	int r;

	cv_prefetch_write(l);
	if (!t)
		return cv_real(pthread_rwlock_unlock)(l);
	timed = cv_unlikely(cv_hold_any(t)) && cv_hold_release(t, cv_addr(l));
	if (cv_unlikely(rw_wakes(t, l)))
		rw_woken(l);
	r = cv_real(pthread_rwlock_unlock)(l);
	if (cv_unlikely(timed) && r == 0)
		rw_commit(t, l);
	return r;
}

CV_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	return CV_RELEASE(CV_OBJECT_RWLOCK, l, true, rw_unlock(l));
}

static int rw_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr)
{
	int r = cv_real(pthread_rwlock_init)(l, attr);

	if (r == 0 && cv_self)
		cv_object_init(cv_addr(l), CV_OBJECT_RWLOCK, l->__data.__flags);
	return r;
}

CV_EXPORT int pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr)
{
	return CV_HOOK(CV_OP_NONE, 0, rw_init(l, attr));
}

CV_EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *l)
{
	cv_object_destroy(cv_addr(l));
	return CV_HOOK(CV_OP_NONE, 0, cv_real(pthread_rwlock_destroy)(l));
}

/* ---- spin locks: an acquire that fails to take the word at once is a wait on the processor ---- */

static inline __attribute__((always_inline)) int spin_lock(pthread_spinlock_t *l, uint64_t ra)
{
	struct cv_thread *t = cv_thread();
	struct cv_entry *detail = NULL;
	struct cv_blocking b;
	uint64_t before = 0, now;
	int saved = errno;
	int r;

	if (!t)
		return cv_real(pthread_spin_lock)(l);
	if (cv_unlikely(cv_count(t, cv_addr(l), ra, CV_OP_SPIN_LOCK, false))) {
		detail = cv_sample(t, cv_addr(l), CV_OP_SPIN_LOCK);
		before = cv_now();
	}
	if (cv_likely(cv_real(pthread_spin_trylock)(l) == 0)) {
		cv_last_set(t, cv_addr(l), ra);
		if (cv_unlikely(detail != NULL)) {
			now = cv_now();
			cv_hold_sampled(t, cv_addr(l), CV_OP_SPIN_LOCK, detail, now, (uint32_t)(now - before));
		}
		return 0;
	}
	cv_block_begin(&b, t, cv_addr(l), ra, CV_OBJECT_SPIN, CV_OP_SPIN_LOCK, NULL);
	errno = saved;
	r = cv_real(pthread_spin_lock)(l);
	now = cv_block_end(&b);
	cv_last_set(t, cv_addr(l), ra);
	cv_block_held(&b, now);
	return r;
}

CV_EXPORT int pthread_spin_lock(pthread_spinlock_t *l)
{
	return CV_ACQUIRE(CV_OP_SPIN_LOCK, l, r_ == 0, spin_lock(l, CV_RA));
}

static inline __attribute__((always_inline)) int spin_try(pthread_spinlock_t *l, uint64_t ra)
{
	struct cv_thread *t = cv_thread();
	struct cv_try y;
	int r;

	if (!t)
		return cv_real(pthread_spin_trylock)(l);
	cv_try_begin(&y, t, cv_addr(l), ra, CV_OP_SPIN_TRYLOCK);
	r = cv_real(pthread_spin_trylock)(l);
	if (r == 0)
		cv_try_got(&y, true);
	else
		cv_try_failed(&y);
	return r;
}

CV_EXPORT int pthread_spin_trylock(pthread_spinlock_t *l)
{
	return CV_ACQUIRE(CV_OP_SPIN_TRYLOCK, l, r_ == 0, spin_try(l, CV_RA));
}

static inline __attribute__((always_inline)) int spin_unlock(pthread_spinlock_t *l)
{
	struct cv_thread *t = cv_self;
	bool timed = cv_hold_any(t) && cv_hold_release(t, cv_addr(l));
	int saved = errno;
	int r = cv_real(pthread_spin_unlock)(l);

	if (timed) {
		cv_hold_commit(t, cv_addr(l));
		errno = saved;
	}
	return r;
}

CV_EXPORT int pthread_spin_unlock(pthread_spinlock_t *l)
{
	return CV_RELEASE(CV_OBJECT_SPIN, l, true, spin_unlock(l));
}

CV_EXPORT int pthread_spin_init(pthread_spinlock_t *l, int shared)
{
	int r = cv_real(pthread_spin_init)(l, shared);

	if (r == 0 && cv_self)
		cv_object_init(cv_addr(l), CV_OBJECT_SPIN, 0);
	return r;
}

CV_EXPORT int pthread_spin_destroy(pthread_spinlock_t *l)
{
	cv_object_destroy(cv_addr(l));
	return cv_real(pthread_spin_destroy)(l);
}
