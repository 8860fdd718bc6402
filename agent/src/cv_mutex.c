/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Mutexes, POSIX and C11. Agent rules: cv_agent.h.
 *
 * A plain mutex (default type, private, not robust, no priority protocol) that is free is taken here,
 * with the C library's own protocol: word 0 -> 1, owner, users. Everything else goes to the
 * C library: a peek at the word tells first whether the call will have to wait. The layout and
 * the meaning of 0/1/2 cannot change, since they are compiled into every static initialiser; a
 * self-test at start-up checks them all the same, and without it every mutex takes the second way.
 */
#include <linux/futex.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>

#include "cv_frames.h"
#include "cv_mutex.h"
#include "cv_real.h"
#include "cv_trace.h"
#include "cv_try.h"
#include "cv_wait.h"

#include "cv_banned.h"

#define KIND_NEVER 0x7fffffff
#define KIND_TYPE(kind) ((kind)&3) /* PTHREAD_MUTEX_RECURSIVE and so on */
#define KIND_ROBUST 0x10
#define KIND_PI 0x20
#define KIND_PP 0x40
#define PP_CEILING 0xfff80000 /* in the word of a priority-protected mutex, also of a free one */

/* __kind of the mutexes that the inline path serves: plain ones, or none. */
static int inline_kind = KIND_NEVER;

/* ---- the inline protocol ---- */

static inline bool plain_try(struct cv_thread *t, pthread_mutex_t *m)
{
	int free_word = 0;

	if (__libc_single_threaded) {
		/* as the C library does: no other thread can look */
		if (m->__data.__lock != 0)
			return false;
		m->__data.__lock = 1;
	} else if (cv_unlikely(!__atomic_compare_exchange_n(&m->__data.__lock, &free_word, 1, false,
							   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))) {
		return false;
	}
	m->__data.__owner = (int)t->tid;
	m->__data.__nusers++;
	return true;
}

static CV_COLD void plain_wake(struct cv_thread *t, pthread_mutex_t *m)
{
	/* Free already: others may take it while we leave word for the one that is about to wake. The
	 * memory may even be gone, which the C library's own unlock tolerates just as well. */
	(void)t;
	cv_object_woken(cv_addr(m), CV_OBJECT_MUTEX);
	cv_syscall(SYS_futex, (long)&m->__data.__lock, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static inline void plain_release(struct cv_thread *t, pthread_mutex_t *m)
{
	m->__data.__owner = 0;
	m->__data.__nusers--;
	if (__libc_single_threaded) {
		m->__data.__lock = 0;
		return;
	}
	if (cv_unlikely(__atomic_exchange_n(&m->__data.__lock, 0, __ATOMIC_RELEASE) > 1))
		plain_wake(t, m);
}

/* ---- peeking, for all kinds ---- */

static inline uint32_t word_of(const pthread_mutex_t *m, int kind)
{
	uint32_t word = (uint32_t)__atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED);

	return kind & KIND_PP ? word & ~PP_CEILING : word;
}

static inline bool looks_taken(const pthread_mutex_t *m, const struct cv_thread *t)
{
	int kind = __atomic_load_n(&m->__data.__kind, __ATOMIC_RELAXED);
	uint32_t word = word_of(m, kind);
	uint32_t owner;

	if (word == 0)
		return false;
	/* robust and PI mutexes keep the owner in the word, with flag bits above it */
	if (kind & (KIND_PI | KIND_ROBUST)) {
		if (word & FUTEX_OWNER_DIED)
			return false;
		owner = word & FUTEX_TID_MASK;
	} else {
		owner = (uint32_t)__atomic_load_n(&m->__data.__owner, __ATOMIC_RELAXED);
	}
	/* one's own recursive or error-checking mutex answers at once */
	return !(owner == t->tid && KIND_TYPE(kind) != PTHREAD_MUTEX_TIMED_NP);
}

/* ---- blocking acquires ---- */

struct acquire {
	enum cv_op op;
	clockid_t clock;
	const struct timespec *deadline; /* NULL = none */
	bool with_clock;
};

static int real_acquire(pthread_mutex_t *m, const struct acquire *a)
{
	if (!a->deadline)
		return cv_real(pthread_mutex_lock)(m);
	if (a->with_clock)
		return cv_real(pthread_mutex_clocklock)(m, a->clock, a->deadline);
	return cv_real(pthread_mutex_timedlock)(m, a->deadline);
}

static bool acquired(int r)
{
	return r == 0 || r == EOWNERDEAD;
}

/* One's own recursive mutex, taken once more: the hold has begun before. */
static bool nested(const pthread_mutex_t *m)
{
	return KIND_TYPE(m->__data.__kind) == PTHREAD_MUTEX_RECURSIVE_NP && m->__data.__count > 1;
}

/* It was a wait, even if it ended without the mutex: not a refusal (EDEADLK, EINVAL). */
static bool waited(int r)
{
	return r == ETIMEDOUT || r == ENOTRECOVERABLE;
}

/* Whether an algorithm that is tried (causal/algorithms.c) has the mutex without sleeping. */
static inline bool spun(struct cv_thread *t, pthread_mutex_t *m)
{
#if defined(CV_EXPERIMENTS)
	struct cv_causal_spinning s;
	bool got = false;

	if (m->__data.__kind != inline_kind || !cv_causal_spinning(&s, cv_addr(m)))
		return false;
	while (!got && cv_causal_spin_on(&s))
		got = word_of(m, inline_kind) == 0 && plain_try(t, m);
	cv_causal_spun(&s);
	return got;
#else
	(void)t, (void)m;
	return false;
#endif
}

static CV_COLD int lock_waiting(struct cv_thread *t, pthread_mutex_t *m, uint64_t ra, const struct acquire *a)
{
	struct cv_blocking b;
	uint64_t wait_ns;
	int saved = errno;
	int r;

	cv_block_begin(&b, t, cv_addr(m), ra, CV_OBJECT_MUTEX, a->op, &m->__data.__owner);
	errno = saved;
	r = !a->deadline && spun(t, m) ? 0 : real_acquire(m, a);
	wait_ns = cv_block_end(&b);
	if (acquired(r)) {
		cv_last_set(t, cv_addr(m), ra);
		cv_block_held(&b, wait_ns);
	} else {
		cv_count_undone(t, cv_addr(m), ra, a->op);
		if (waited(r))
			cv_block_commit(&b, wait_ns, true);
		else
			CV_EVENT(cv_event_wait_ended(&b, true));
	}
	return r;
}

/* The call was counted and drawn: take its stack now, while nothing is held yet, and time it. */
static CV_COLD int lock_sampled(struct cv_thread *t, pthread_mutex_t *m, uint64_t ra, const struct acquire *a)
{
	int saved = errno;
	struct cv_entry *detail = cv_sample(t, cv_addr(m), a->op);
	uint64_t before, after;
	int r = 0;

	errno = saved;
	before = cv_now();
	if (m->__data.__kind == inline_kind) {
		if (!plain_try(t, m))
			return lock_waiting(t, m, ra, a);
#if defined(__x86_64__)
		__asm__ volatile("lfence" ::: "memory"); /* rdtsc would overtake the acquire */
#endif
	} else {
		if (looks_taken(m, t))
			return lock_waiting(t, m, ra, a);
		r = real_acquire(m, a);
	}
	after = cv_now();
	if (!acquired(r)) {
		cv_count_undone(t, cv_addr(m), ra, a->op);
	} else if (!nested(m)) {
		cv_last_set(t, cv_addr(m), ra);
		cv_hold_sampled(t, cv_addr(m), a->op, detail, after, (uint32_t)(after - before));
	}
	return r;
}

/* All that is not the hot case: other kinds, unknown pairs, samples. */
static CV_NOINLINE int lock_slow(pthread_mutex_t *m, uint64_t ra, const struct acquire *a)
{
	struct cv_thread *t = cv_thread();
	int saved = errno;
	int r;

	if (!t)
		return real_acquire(m, a);
	if (cv_count(t, cv_addr(m), ra, a->op, false))
		return lock_sampled(t, m, ra, a);
	errno = saved;
	if (m->__data.__kind == inline_kind) {
		if (!plain_try(t, m))
			return lock_waiting(t, m, ra, a);
		r = 0;
	} else {
		if (looks_taken(m, t))
			return lock_waiting(t, m, ra, a);
		r = real_acquire(m, a);
	}
	if (acquired(r))
		cv_last_set(t, cv_addr(m), ra);
	else
		cv_count_undone(t, cv_addr(m), ra, a->op);
	return r;
}

static const struct acquire plain_lock = { .op = CV_OP_MUTEX_LOCK };

static CV_COLD int lock_slow_plain(pthread_mutex_t *m, uint64_t ra)
{
	return lock_slow(m, ra, &plain_lock);
}

static CV_COLD int lock_waiting_plain(struct cv_thread *t, pthread_mutex_t *m, uint64_t ra, uint64_t *n)
{
	cv_work(t)->countdown--;
	++*n;
	return lock_waiting(t, m, ra, &plain_lock);
}

/* What an acquire comes to for the tracing build; the normal one does not ask. */
static inline __attribute__((unused)) enum cv_got got(int r, const pthread_mutex_t *m)
{
	return !acquired(r) ? CV_GOT_NOT : nested(m) ? CV_GOT_AGAIN : CV_GOT;
}

/* The hot path: about a nanosecond more than the C library's. */
static inline __attribute__((always_inline)) int lock_fast(pthread_mutex_t *m, uint64_t ra)
{
	struct cv_thread *t = cv_self;
	uint64_t *n;

	cv_prefetch_write(m); /* the word is about to be written: fetch it once, and while we count */
	if (cv_unlikely(!t || m->__data.__kind != inline_kind))
		return lock_slow_plain(m, ra);
	n = cv_counter(t, cv_addr(m), ra);
	if (cv_unlikely(!n || cv_work(t)->countdown <= 1))
		return lock_slow_plain(m, ra);
	/* The counters are written after the word is had: the locked instruction would wait for them, but
	 * here they drain while the program works. */
	if (cv_unlikely(!plain_try(t, m)))
		return lock_waiting_plain(t, m, ra, n);
	cv_work(t)->countdown--;
	++*n;
	cv_last_set(t, cv_addr(m), ra);
	return 0;
}

/* The place for an order of threads that is tried: causal/algorithms.c. */
static inline __attribute__((always_inline)) void queue(const pthread_mutex_t *m)
{
	if (m->__data.__kind == inline_kind)
		CV_CAUSAL(cv_causal_queue(cv_addr(m)));
}

/* Whether a section is entered without the mutex, or together with others: causal/lifted.c. */
static inline __attribute__((always_inline)) bool lifted(const pthread_mutex_t *m, uint64_t ra)
{
#if defined(CV_EXPERIMENTS)
	return m->__data.__kind == inline_kind && cv_causal_lift(cv_addr(m), ra);
#else
	(void)m, (void)ra;
	return false;
#endif
}

/* Whether it was, and is left by now. */
static inline __attribute__((always_inline)) bool lowered(const pthread_mutex_t *m)
{
#if defined(CV_EXPERIMENTS)
	return cv_causal_lower(cv_addr(m));
#else
	(void)m;
	return false;
#endif
}

CV_EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
	if (lifted(m, CV_RA))
		return 0;
	queue(m);
	return CV_ACQUIRE(CV_OP_MUTEX_LOCK, m, got(r_, m), lock_fast(m, CV_RA));
}

CV_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *deadline)
{
	return CV_ACQUIRE(CV_OP_MUTEX_TIMEDLOCK, m, got(r_, m),
			  lock_slow(m, CV_RA, (&(struct acquire){ .op = CV_OP_MUTEX_TIMEDLOCK, .deadline = deadline })));
}

CV_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *deadline)
{
	/* refused, even if the mutex is free */
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return CV_HOOK(CV_OP_NONE, 0, cv_real(pthread_mutex_clocklock)(m, clock, deadline));
	return CV_ACQUIRE(CV_OP_MUTEX_TIMEDLOCK, m, got(r_, m),
			  lock_slow(m, CV_RA,
				    (&(struct acquire){ .op = CV_OP_MUTEX_TIMEDLOCK,
							.clock = clock,
							.deadline = deadline,
							.with_clock = true })));
}

/* ---- trying ---- */

static int try_lock(pthread_mutex_t *m, uint64_t ra)
{
	struct cv_thread *t = cv_thread();
	struct cv_try y;
	int r;

	if (!t)
		return cv_real(pthread_mutex_trylock)(m);
	cv_try_begin(&y, t, cv_addr(m), ra, CV_OP_MUTEX_TRYLOCK);
	if (m->__data.__kind == inline_kind)
		/* A loop that tries again and again only reads while the mutex is taken: what counting a failure costs is less
		 * than what the locked instruction would. */
		r = (cv_try_again(&y) && word_of(m, inline_kind)) || !plain_try(t, m) ? EBUSY : 0;
	else
		r = cv_real(pthread_mutex_trylock)(m);
	if (acquired(r))
		cv_try_got(&y, true);
	else
		cv_try_failed(&y);
	return r;
}

CV_EXPORT int pthread_mutex_trylock(pthread_mutex_t *m)
{
	return CV_ACQUIRE(CV_OP_MUTEX_TRYLOCK, m, got(r_, m), try_lock(m, CV_RA));
}

/* ---- release ---- */

static int release(struct cv_thread *t, pthread_mutex_t *m)
{
	int kind = m->__data.__kind;
	int r;

	if (t && kind == inline_kind) {
		plain_release(t, m);
		return 0;
	}
	/* others wait: leave word before the C library wakes one of them */
	if (t && KIND_TYPE(kind) != PTHREAD_MUTEX_RECURSIVE_NP && !(kind & KIND_PI) &&
	    word_of(m, kind) == 2)
		cv_object_woken(cv_addr(m), CV_OBJECT_MUTEX);
	r = cv_real(pthread_mutex_unlock)(m);
	return r;
}

/* An unlock now would release the mutex. */
static inline bool is_outermost(const pthread_mutex_t *m)
{
	return KIND_TYPE(m->__data.__kind) != PTHREAD_MUTEX_RECURSIVE_NP || m->__data.__count <= 1;
}

static CV_COLD int unlock_slow(struct cv_thread *t, pthread_mutex_t *m)
{
	int saved = errno;
	bool timed = is_outermost(m) && cv_hold_any(t) && cv_hold_release(t, cv_addr(m));
	int r = release(t, m);

	if (timed && r == 0)
		cv_hold_commit(t, cv_addr(m));
	errno = saved;
	return r;
}

static inline __attribute__((always_inline)) int unlock(pthread_mutex_t *m)
{
	struct cv_thread *t = cv_self;

	if (cv_unlikely(!t || m->__data.__kind != inline_kind || t->held_count))
		return unlock_slow(t, m);
	plain_release(t, m);
	return 0;
}

CV_EXPORT int pthread_mutex_unlock(pthread_mutex_t *m)
{
	if (lowered(m))
		return 0;
	return CV_RELEASE(CV_OBJECT_MUTEX, m, is_outermost(m), unlock(m));
}

/* ---- life ---- */

static int init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	int r = cv_real(pthread_mutex_init)(m, attr);

	if (r == 0 && cv_self)
		cv_object_init(cv_addr(m), CV_OBJECT_MUTEX, (uint32_t)m->__data.__kind);
	return r;
}

CV_EXPORT int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	return CV_HOOK(CV_OP_NONE, 0, init(m, attr));
}

CV_EXPORT int pthread_mutex_destroy(pthread_mutex_t *m)
{
	cv_object_destroy(cv_addr(m));
	return CV_HOOK(CV_OP_NONE, 0, cv_real(pthread_mutex_destroy)(m));
}

/* ---- C11: the same objects by other names; libc calls its own mutex functions directly ---- */

static int c11_result(int r)
{
	switch (r) {
	case 0:
		return thrd_success;
	case ENOMEM:
		return thrd_nomem;
	case ETIMEDOUT:
		return thrd_timedout;
	case EBUSY:
		return thrd_busy;
	default:
		return thrd_error;
	}
}

CV_EXPORT int mtx_init(mtx_t *m, int type)
{
	int r = cv_real(mtx_init)(m, type);

	if (r == thrd_success && cv_self)
		cv_object_init(cv_addr(m), CV_OBJECT_MUTEX, (uint32_t)((pthread_mutex_t *)m)->__data.__kind);
	return r;
}

CV_EXPORT void mtx_destroy(mtx_t *m)
{
	cv_object_destroy(cv_addr(m));
	cv_real(mtx_destroy)(m);
}

CV_EXPORT int mtx_lock(mtx_t *m)
{
	if (lifted((pthread_mutex_t *)m, CV_RA))
		return thrd_success;
	queue((pthread_mutex_t *)m);
	return CV_ACQUIRE(CV_OP_MUTEX_LOCK, m, got(r_ == thrd_success ? 0 : r_, (pthread_mutex_t *)m), c11_result(lock_fast((pthread_mutex_t *)m, CV_RA)));
}

CV_EXPORT int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict deadline)
{
	return CV_ACQUIRE(
		CV_OP_MUTEX_TIMEDLOCK, m, got(r_ == thrd_success ? 0 : r_, (pthread_mutex_t *)m),
		c11_result(lock_slow((pthread_mutex_t *)m, CV_RA,
				     (&(struct acquire){ .op = CV_OP_MUTEX_TIMEDLOCK, .deadline = deadline }))));
}

CV_EXPORT int mtx_trylock(mtx_t *m)
{
	return CV_ACQUIRE(CV_OP_MUTEX_TRYLOCK, m, got(r_ == thrd_success ? 0 : r_, (pthread_mutex_t *)m), c11_result(try_lock((pthread_mutex_t *)m, CV_RA)));
}

CV_EXPORT int mtx_unlock(mtx_t *m)
{
	if (lowered((pthread_mutex_t *)m))
		return thrd_success;
	return CV_RELEASE(CV_OBJECT_MUTEX, m, is_outermost((pthread_mutex_t *)m), c11_result(unlock((pthread_mutex_t *)m)));
}

/* ---- self-test ---- */

/* A sanitizer's runtime answers for the C library's functions in such programs, and is not ready yet when
 * the agent starts. It must see every operation, too: no inline path. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));

bool cv_mutex_init(struct cv_thread *t)
{
	pthread_mutex_t ours = PTHREAD_MUTEX_INITIALIZER, theirs = PTHREAD_MUTEX_INITIALIZER;
	bool same;

	inline_kind = KIND_NEVER;
	if (__asan_init || __tsan_init || __msan_init)
		return false;
	if (!t || theirs.__data.__kind != PTHREAD_MUTEX_TIMED_NP)
		return false;
	/* Each state must be bit for bit what the C library makes of it. */
	cv_real(pthread_mutex_lock)(&theirs);
	same = plain_try(t, &ours) && memcmp(&ours, &theirs, sizeof(ours)) == 0;
	same = same && !plain_try(t, &ours) && cv_real(pthread_mutex_trylock)(&ours) == EBUSY;
	cv_real(pthread_mutex_unlock)(&theirs);
	if (same)
		plain_release(t, &ours);
	same = same && memcmp(&ours, &theirs, sizeof(ours)) == 0;
	same = same && cv_real(pthread_mutex_destroy)(&ours) == 0;
	if (same)
		inline_kind = PTHREAD_MUTEX_TIMED_NP;
	return same;
}
