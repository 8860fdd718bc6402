/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Waits for events: condition variables, barriers, once, join. Agent rules: cv_agent.h. */
#include <dlfcn.h>

#include "cv_frames.h"
#include "cv_real.h"
#include "cv_trace.h"
#include "cv_try.h"
#include "cv_wait.h"

#include "cv_banned.h"

/* ---- condition variables ----
 *
 * pthread_cond_t changed in glibc 2.3.2: the functions of today carry that version, and a program that was
 * linked before it must get the old ones (below). */

struct cond_wait {
	enum cv_op op;
	bool with_clock;
	clockid_t clock;
	const struct timespec *deadline; /* NULL = none */
};

static int cond_real(pthread_cond_t *c, pthread_mutex_t *m, const struct cond_wait *a)
{
	if (!a->deadline)
		return cv_real(pthread_cond_wait)(c, m);
	if (a->with_clock)
		return cv_real(pthread_cond_clockwait)(c, m, a->clock, a->deadline);
	return cv_real(pthread_cond_timedwait)(c, m, a->deadline);
}

static int cond_wait(pthread_cond_t *c, pthread_mutex_t *m, uint64_t ra, const struct cond_wait *a)
{
	struct cv_thread *t = cv_thread();
	struct cv_blocking b;
	uint64_t wait_ns;
	int saved = errno;
	int r;

	if (!t)
		return cond_real(c, m, a);
	cv_count(t, cv_addr(c), ra, a->op, false);
	cv_block_begin(&b, t, cv_addr(c), ra, CV_OBJECT_COND, a->op, NULL);
	if (cv_hold_any(t)) {
		cv_hold_release(t, cv_addr(m)); /* the hold ends here; it is recorded at the unlock */
		/* A loop of waits has no unlock in it: make room before there is none. */
		if (t->held_count > CV_HELD / 2)
			cv_hold_commit(t, cv_addr(m));
	}
	CV_EVENT(cv_event_cond_waits(cv_addr(c), cv_addr(m), ra));
	errno = saved;
	r = cond_real(c, m, a);
	CV_EVENT(cv_event_cond_woken(cv_addr(c), cv_addr(m), ra, r == ETIMEDOUT));
	wait_ns = cv_block_end(&b);
	if (r == ETIMEDOUT)
		cv_count_failed(t, cv_addr(c), ra, a->op);
	cv_last_set(t, cv_addr(m), ra);
	cv_block_deferred(&b, wait_ns, r != 0, cv_addr(m));
	return r;
}

__asm__(".symver cv_new_pthread_cond_wait, pthread_cond_wait@@GLIBC_2.3.2");
CV_EXPORT int cv_new_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	return CV_WAIT(CV_OP_COND_WAIT, c, m, cond_wait(c, m, CV_RA, (&(struct cond_wait){ .op = CV_OP_COND_WAIT })));
}

__asm__(".symver cv_new_pthread_cond_timedwait, pthread_cond_timedwait@@GLIBC_2.3.2");
CV_EXPORT int cv_new_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *deadline)
{
	return CV_WAIT(
		CV_OP_COND_TIMEDWAIT, c, m,
		cond_wait(c, m, CV_RA, (&(struct cond_wait){ .op = CV_OP_COND_TIMEDWAIT, .deadline = deadline })));
}

CV_EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
				     const struct timespec *deadline)
{
	return CV_WAIT(CV_OP_COND_TIMEDWAIT, c, m,
		       cond_wait(c, m, CV_RA,
				 (&(struct cond_wait){ .op = CV_OP_COND_TIMEDWAIT,
						       .with_clock = true,
						       .clock = clock,
						       .deadline = deadline })));
}

/* The time, for the event of it; 0 = none. */
static uint64_t cond_waking(pthread_cond_t *c, uint64_t ra, enum cv_op op)
{
	struct cv_thread *t = cv_thread();
	uint64_t stamp = 0;
	int saved = errno;

	if (!t)
		return 0;
	CV_EVENT(stamp = cv_event_wake_time());
	CV_CAUSAL(cv_causal_wakes());
	cv_count(t, cv_addr(c), ra, op, false);
	/* __wrefs: number of waiters, from bit 3 up (since 2.25) */
	if (__atomic_load_n(&c->__data.__wrefs, __ATOMIC_RELAXED) >> 3)
		cv_object_woken(cv_addr(c), CV_OBJECT_COND);
	else
		cv_count_failed(t, cv_addr(c), ra, op);
	errno = saved;
	return stamp;
}

/* One waiter, or all, have been woken. */
#define COND_WOKE(stamp, ev, c) CV_EVENT(cv_event_wakes(stamp, ev, CV_OBJECT_COND, cv_addr(c), CV_RA))

__asm__(".symver cv_new_pthread_cond_signal, pthread_cond_signal@@GLIBC_2.3.2");
CV_EXPORT int cv_new_pthread_cond_signal(pthread_cond_t *c)
{
	uint64_t stamp CV_EVENT_ONLY = cond_waking(c, CV_RA, CV_OP_COND_SIGNAL);
	int r = CV_HOOK(CV_OP_COND_SIGNAL, c, cv_real(pthread_cond_signal)(c));

	COND_WOKE(stamp, CV_EV_SIGNAL, c);
	return r;
}

__asm__(".symver cv_new_pthread_cond_broadcast, pthread_cond_broadcast@@GLIBC_2.3.2");
CV_EXPORT int cv_new_pthread_cond_broadcast(pthread_cond_t *c)
{
	uint64_t stamp CV_EVENT_ONLY = cond_waking(c, CV_RA, CV_OP_COND_BROADCAST);
	int r = CV_HOOK(CV_OP_COND_BROADCAST, c, cv_real(pthread_cond_broadcast)(c));

	COND_WOKE(stamp, CV_EV_BROADCAST, c);
	return r;
}

static int init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
	int r = cv_real(pthread_cond_init)(c, attr);

	if (r == 0 && cv_self)
		cv_object_init(cv_addr(c), CV_OBJECT_COND, 0);
	return r;
}

__asm__(".symver cv_new_pthread_cond_init, pthread_cond_init@@GLIBC_2.3.2");
CV_EXPORT int cv_new_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
	return CV_HOOK(CV_OP_NONE, 0, init(c, attr));
}

__asm__(".symver cv_new_pthread_cond_destroy, pthread_cond_destroy@@GLIBC_2.3.2");
CV_EXPORT int cv_new_pthread_cond_destroy(pthread_cond_t *c)
{
	cv_object_destroy(cv_addr(c));
	return CV_HOOK(CV_OP_NONE, 0, cv_real(pthread_cond_destroy)(c));
}

static int c11_result(int r)
{
	return r == 0 ? thrd_success : r == ETIMEDOUT ? thrd_timedout : r == ENOMEM ? thrd_nomem : thrd_error;
}

CV_EXPORT int cnd_wait(cnd_t *c, mtx_t *m)
{
	return CV_WAIT(CV_OP_COND_WAIT, c, m,
		       c11_result(cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)m, CV_RA,
					    (&(struct cond_wait){ .op = CV_OP_COND_WAIT }))));
}

CV_EXPORT int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict deadline)
{
	return CV_WAIT(CV_OP_COND_TIMEDWAIT, c, m,
		       c11_result(cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)m, CV_RA,
					    (&(struct cond_wait){ .op = CV_OP_COND_TIMEDWAIT, .deadline = deadline }))));
}

CV_EXPORT int cnd_signal(cnd_t *c)
{
	uint64_t stamp CV_EVENT_ONLY = cond_waking((pthread_cond_t *)c, CV_RA, CV_OP_COND_SIGNAL);
	int r = CV_HOOK(CV_OP_COND_SIGNAL, c, c11_result(cv_real(pthread_cond_signal)((pthread_cond_t *)c)));

	COND_WOKE(stamp, CV_EV_SIGNAL, c);
	return r;
}

CV_EXPORT int cnd_broadcast(cnd_t *c)
{
	uint64_t stamp CV_EVENT_ONLY = cond_waking((pthread_cond_t *)c, CV_RA, CV_OP_COND_BROADCAST);
	int r = CV_HOOK(CV_OP_COND_BROADCAST, c, c11_result(cv_real(pthread_cond_broadcast)((pthread_cond_t *)c)));

	COND_WOKE(stamp, CV_EV_BROADCAST, c);
	return r;
}

CV_EXPORT int cnd_init(cnd_t *c)
{
	int r = cv_real(cnd_init)(c);

	if (r == thrd_success && cv_self)
		cv_object_init(cv_addr(c), CV_OBJECT_COND, 0);
	return r;
}

CV_EXPORT void cnd_destroy(cnd_t *c)
{
	cv_object_destroy(cv_addr(c));
	cv_real(cnd_destroy)(c);
}

/* Programs linked against glibc before 2.3.2 have another pthread_cond_t, a pointer to this one: not
 * recorded, passed on by the same version. The other names above are the default version. */
#if defined(__x86_64__)
static void *old_version(void **cache, const char *name);
#define OLD_COND(name, params, args)                                                                     \
	CV_EXPORT int cv_old_##name params;                                                              \
	__asm__(".symver cv_old_" #name ", " #name "@GLIBC_2.2.5");                                      \
	CV_EXPORT int cv_old_##name params                                                               \
	{                                                                                                \
		static void *real;                                                                       \
		return ((int(*) params)old_version(&real, #name)) args;                                  \
	}
OLD_COND(pthread_cond_init, (void *c, const void *attr), (c, attr))
OLD_COND(pthread_cond_destroy, (void *c), (c))
OLD_COND(pthread_cond_wait, (void *c, void *m), (c, m))
OLD_COND(pthread_cond_timedwait, (void *c, void *m, const void *deadline), (c, m, deadline))
OLD_COND(pthread_cond_signal, (void *c), (c))
OLD_COND(pthread_cond_broadcast, (void *c), (c))

static void *old_version(void **cache, const char *name)
{
	void *f = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (!f) {
		f = dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
		__atomic_store_n(cache, f, __ATOMIC_RELAXED);
	}
	return f;
}
#endif

/* ---- barriers ---- */

CV_EXPORT int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attr, unsigned count)
{
	int r = cv_real(pthread_barrier_init)(barrier, attr, count);

	if (r == 0 && cv_self)
		cv_object_init(cv_addr(barrier), CV_OBJECT_BARRIER, count);
	return r;
}

CV_EXPORT int pthread_barrier_destroy(pthread_barrier_t *barrier)
{
	cv_object_destroy(cv_addr(barrier));
	return cv_real(pthread_barrier_destroy)(barrier);
}

CV_EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier)
{
	struct cv_thread *t = cv_thread();
	struct cv_blocking b;
	uint64_t wait_ns;
	int saved = errno;
	bool last = false;
	int r;

	if (!t)
		return cv_real(pthread_barrier_wait)(barrier);
	cv_count(t, cv_addr(barrier), CV_RA, CV_OP_BARRIER_WAIT, false);
	cv_block_begin(&b, t, cv_addr(barrier), CV_RA, CV_OBJECT_BARRIER, CV_OP_BARRIER_WAIT, NULL);
	/* Arrivals are counted, so that the one who lets the others go is known. */
	if (b.object && b.object->attr) {
		uint64_t n = __atomic_add_fetch(&b.object->arrivals, 1, __ATOMIC_RELAXED);

		last = n % b.object->attr == 0;
		if (last)
			cv_object_woken(cv_addr(barrier), CV_OBJECT_BARRIER);
	}
	errno = saved;
	r = cv_real(pthread_barrier_wait)(barrier);
	wait_ns = cv_block_end(&b);
	if (last && b.wait) {
		b.wait->last_arrivals++;
		CV_EVENT(cv_event_wait_last(&b));
	} else {
		cv_block_commit(&b, wait_ns, false);
	}
	errno = saved;
	return r;
}

/* ---- once: bit 0 of the control word: somebody runs the routine ---- */

static bool once_is_waited_for(struct cv_thread *t, struct cv_blocking *b, int *control, uint64_t ra)
{
	int saved = errno;
	int word;

	cv_count(t, cv_addr(control), ra, CV_OP_ONCE, false);
	/* As late as possible: whoever comes first often comes together with those who will wait for it. */
	word = __atomic_load_n(control, __ATOMIC_ACQUIRE);
	if (word & 1)
		cv_block_begin(b, t, cv_addr(control), ra, CV_OBJECT_ONCE, CV_OP_ONCE, NULL);
	errno = saved;
	return word & 1;
}

/* `call` runs the routine, or finds that it has run long ago (bit 1): that is no event. */
#define ONCE_RUN(control, ra, call)                                                                          \
	do {                                                                                                 \
		bool runs_ CV_EVENT_ONLY = !(__atomic_load_n((const int *)(control), __ATOMIC_RELAXED) & 2);  \
		if (runs_)                                                                                   \
			CV_EVENT(cv_event_always(CV_EV_ONCE_BEGIN, CV_OBJECT_ONCE, cv_addr(control), ra, 0)); \
		(call);                                                                                      \
		if (runs_)                                                                                   \
			CV_EVENT(cv_event_always(CV_EV_ONCE_END, CV_OBJECT_ONCE, cv_addr(control), ra, 0));   \
	} while (0)

static inline __attribute__((always_inline)) int once(pthread_once_t *control, void (*routine)(void), uint64_t ra)
{
	struct cv_thread *t = cv_thread();
	struct cv_blocking b;
	int r;

	if (!t || !once_is_waited_for(t, &b, control, ra)) {
		ONCE_RUN(control, ra, r = cv_real(pthread_once)(control, routine));
		return r;
	}
	r = cv_real(pthread_once)(control, routine);
	cv_block_commit(&b, cv_block_end(&b), false);
	return r;
}

CV_EXPORT int pthread_once(pthread_once_t *control, void (*routine)(void))
{
	return CV_HOOK(CV_OP_ONCE, control, once(control, routine, CV_RA));
}

CV_EXPORT void call_once(once_flag *flag, void (*routine)(void))
{
	struct cv_thread *t = cv_thread();
	struct cv_blocking b;

	if (!t || !once_is_waited_for(t, &b, (int *)flag, CV_RA)) {
		ONCE_RUN(flag, CV_RA, cv_real(call_once)(flag, routine));
		return;
	}
	cv_real(call_once)(flag, routine);
	cv_block_commit(&b, cv_block_end(&b), false);
}

/* ---- join ---- */

#define JOIN(thread, ra, call)                                                                    \
	({                                                                                        \
		struct cv_thread *t_ = cv_thread();                                               \
		struct cv_blocking b_;                                                            \
		int saved_ = errno, r_;                                                           \
		if (t_) {                                                                         \
			cv_count(t_, (uint64_t)(thread), ra, CV_OP_JOIN, false);                  \
			cv_block_begin(&b_, t_, (uint64_t)(thread), ra, CV_OBJECT_THREAD, CV_OP_JOIN, NULL); \
			errno = saved_;                                                           \
		}                                                                                 \
		r_ = (call);                                                                      \
		if (t_)                                                                           \
			cv_block_commit(&b_, cv_block_end(&b_), r_ != 0);                         \
		r_;                                                                               \
	})

CV_EXPORT int pthread_join(pthread_t thread, void **result)
{
	return JOIN(thread, CV_RA, cv_real(pthread_join)(thread, result));
}

CV_EXPORT int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *deadline)
{
	return JOIN(thread, CV_RA, cv_real(pthread_timedjoin_np)(thread, result, deadline));
}

CV_EXPORT int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock, const struct timespec *deadline)
{
	return JOIN(thread, CV_RA, cv_real(pthread_clockjoin_np)(thread, result, clock, deadline));
}

CV_EXPORT int thrd_join(thrd_t thread, int *result)
{
	return JOIN(thread, CV_RA, cv_real(thrd_join)(thread, result));
}

CV_EXPORT int pthread_tryjoin_np(pthread_t thread, void **result)
{
	struct cv_thread *t = cv_thread();
	int r = cv_real(pthread_tryjoin_np)(thread, result);
	int saved = errno;

	if (t) {
		if (r == 0)
			CV_EVENT(cv_event_always(CV_EV_JOIN_END, CV_OBJECT_THREAD, (uint64_t)thread, CV_RA, 0));
		cv_count(t, (uint64_t)thread, CV_RA, CV_OP_JOIN, r != 0);
		errno = saved;
	}
	return r;
}
