/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The C library's syscall(): where C++20's atomics and semaphores, Rust's std::sync and parking_lot, and
 * many programs' own locks go when they have to wait. Only their blocking calls can be seen. Agent rules:
 * cv_agent.h.
 *
 * Declared with seven arguments instead of "...", which is the same to the caller on the
 * architectures we serve; <unistd.h> must not be included here.
 */
#include <linux/futex.h>
#include <linux/sched.h>
#include <sys/syscall.h>

#include "cv_frames.h"
#include "cv_process.h"
#include "cv_sandbox.h"
#include "cv_trace.h"
#include "cv_wait.h"

#include "cv_banned.h"

static long finish(long r)
{
	if ((unsigned long)r > -4096ul) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

static bool waits(long op)
{
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_LOCK_PI:
	case 13: /* FUTEX_LOCK_PI2 */
	case FUTEX_WAIT_REQUEUE_PI:
		return true;
	default:
		return false;
	}
}

static bool wakes(long op)
{
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_WAKE_OP:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_UNLOCK_PI:
		return true;
	default:
		return false;
	}
}

static long futex_wait(struct cv_thread *t, uint64_t ra, long a, long b, long c, long d, long e, long f)
{
	struct cv_blocking blocking;
	uint64_t wait_ns;
	int saved = errno;
	long r;

	cv_count(t, (uint64_t)a, ra, CV_OP_FUTEX_WAIT, false);
	cv_block_begin(&blocking, t, (uint64_t)a, ra, CV_OBJECT_FUTEX, CV_OP_FUTEX_WAIT, NULL);
	errno = saved;
	r = cv_syscall(SYS_futex, a, b, c, d, e, f);
	wait_ns = cv_block_end(&blocking);
	/* EAGAIN: the word had changed, nothing was waited for */
	if (r == -EAGAIN) {
		cv_count_failed(t, (uint64_t)a, ra, CV_OP_FUTEX_WAIT);
		CV_EVENT(cv_event_wait_ended(&blocking, false));
	} else {
		cv_block_commit(&blocking, wait_ns, r == -ETIMEDOUT);
	}
	errno = saved;
	return r;
}

static long futex_wake(struct cv_thread *t, uint64_t ra, long a, long b, long c, long d, long e, long f)
{
	int saved = errno;
	long r;

	cv_count(t, (uint64_t)a, ra, CV_OP_FUTEX_WAKE, false);
	CV_CAUSAL(cv_causal_futex_wakes());
	CV_EVENT(cv_event_in_window(CV_EV_FUTEX_WAKE, CV_OBJECT_FUTEX, (uint64_t)a, ra, (uint64_t)(uint32_t)c));
	cv_object_woken((uint64_t)a, CV_OBJECT_FUTEX);
	errno = saved;
	r = cv_syscall(SYS_futex, a, b, c, d, e, f);
	if (r == 0)
		cv_count_failed(t, (uint64_t)a, ra, CV_OP_FUTEX_WAKE);
	return r;
}

/* A child that shares no memory with us, made behind the C library's back. */
static bool forks(long nr, long a)
{
#ifdef SYS_fork
	if (nr == SYS_fork)
		return true;
#endif
#ifdef SYS_clone3
	if (nr == SYS_clone3) /* the flags come first */
		return !(*(const uint64_t *)a & CLONE_VM);
#endif
	return nr == SYS_clone && !(a & CLONE_VM);
}

static inline __attribute__((always_inline)) long system_call(uint64_t ra, long nr, long a, long b, long c, long d,
							      long e, long f)
{
	struct cv_thread *t;
	long r;

	if (nr == SYS_futex && (waits(b) || wakes(b)) && (t = cv_thread()) != NULL)
		return finish(waits(b) ? futex_wait(t, ra, a, b, c, d, e, f) :
					 futex_wake(t, ra, a, b, c, d, e, f));
	if (cv_sandbox_asked(nr))
		return finish(cv_sandbox_call(nr, a, b, c, d, e, f));
	r = cv_syscall(nr, a, b, c, d, e, f);
	if (cv_unlikely(r == 0 && forks(nr, a)))
		cv_process_forked();
	return finish(r);
}

CV_EXPORT long syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	return CV_SYSCALL(nr, a, b, system_call(CV_RA, nr, a, b, c, d, e, f));
}
