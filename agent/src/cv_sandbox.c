/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. */
#include <linux/prctl.h>
#include <linux/seccomp.h>

#include "cv_arena.h"
#include "cv_object.h"
#include "cv_sandbox.h"
#include "cv_thread.h"

#include "cv_banned.h"

/* Made ready before the sandbox closes: room for some hundred threads' records, or 30,000 entries. */
#define LAST_ROOM (4ul << 20)

enum request {
	NONE,
	FILTER, /* a seccomp filter: which calls it refuses is unknown */
	STRICT, /* read, write, exit and sigreturn for this thread; no time stamp counter */
	NO_TSC, /* no time stamp counter for this thread and those that it makes */
};

static enum request request_of(long nr, long a, long b)
{
	if (nr == SYS_seccomp)
		return a == SECCOMP_SET_MODE_STRICT ? STRICT : a == SECCOMP_SET_MODE_FILTER ? FILTER : NONE;
	if (nr != SYS_prctl)
		return NONE;
	if (a == PR_SET_SECCOMP)
		return b == SECCOMP_MODE_STRICT ? STRICT : b == SECCOMP_MODE_FILTER ? FILTER : NONE;
	return a == PR_SET_TSC && b == PR_TSC_SIGSEGV ? NO_TSC : NONE;
}

/* Before the call: after it, it is too late. The clock is not switched back if the call fails. */
static void prepare(enum request request)
{
	if (request == NO_TSC) {
		cv_clock_without_tsc();
		return;
	}
	cv_objects_prepare();
	cv_arena_prepare(LAST_ROOM);
	__atomic_store_n(&cv_quiet, true, __ATOMIC_SEQ_CST);
}

long cv_sandbox_call(long nr, long a, long b, long c, long d, long e, long f)
{
	enum request request = cv_arena ? request_of(nr, a, b) : NONE;
	bool was_quiet = cv_is_quiet();
	long r;

	/* The child of a vfork speaks for itself, but runs on its parent's memory. */
	if (request != NONE && !was_quiet && cv_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) != cv_arena->pid)
		request = NONE;
	if (request != NONE && !was_quiet)
		prepare(request);
	r = cv_syscall(nr, a, b, c, d, e, f);
	if (request == NONE || request == NO_TSC)
		return r;
	if (r < 0)
		__atomic_store_n(&cv_quiet, was_quiet, __ATOMIC_SEQ_CST);
	else if (!was_quiet)
		cv_drop(CV_DROP_SANDBOXED);
	if (r >= 0 && request == STRICT)
		cv_thread_abandon();
	return r;
}

/* By its symbol: the header declares it with "...", which is the same to the caller. */
CV_EXPORT int cv_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) __asm__("prctl");
CV_EXPORT int cv_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	long r = cv_sandbox_call(SYS_prctl, option, (long)a, (long)b, (long)c, (long)d, 0);

	if (r < 0) {
		errno = (int)-r;
		return -1;
	}
	return (int)r;
}
