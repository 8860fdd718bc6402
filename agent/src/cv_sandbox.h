/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Programs that give up system calls (seccomp) or the time stamp counter.
 *
 * A filter may kill for any call that the program itself does not need. So from the moment a program
 * asks for one, the agent makes no system call of its own any more: its tables do not grow beyond what
 * is ready, and what only the kernel knows (CPU times) stays unknown.
 */
#ifndef CV_SANDBOX_H
#define CV_SANDBOX_H

#include <sys/syscall.h>

#include "cv_agent.h"

/* No system calls of the agent's own. Process-wide, though a filter may bind one thread only. */
extern bool cv_quiet __attribute__((visibility("hidden")));

static inline bool cv_is_quiet(void)
{
	return __atomic_load_n(&cv_quiet, __ATOMIC_RELAXED);
}

/* Could this system call be a request that cv_sandbox_call() knows? */
static inline bool cv_sandbox_asked(long nr)
{
	return cv_unlikely(nr == SYS_prctl || nr == SYS_seccomp);
}

/* Make the program's own system call `nr`; if it is such a request, prepare for it. Raw result. */
long cv_sandbox_call(long nr, long a, long b, long c, long d, long e, long f);

#endif
