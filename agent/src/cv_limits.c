/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Programs that limit their own address space or lock it in memory: what the agent has reserved counts, though
 * hardly any of it is used. It is given back first, up to a small share of the limit. Agent rules: cv_agent.h.
 */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "cv_arena.h"
#include "cv_process.h"
#include "cv_real.h"

#include "cv_banned.h"

#define SHARE 64

/* `limit`: bytes of address space that the program wants to get by with. */
static void reserve_less(rlim_t limit)
{
	int saved = errno;

	if (limit != RLIM_INFINITY && cv_process_own())
		cv_arena_shrink(limit / SHARE);
	errno = saved;
}

CV_EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	if (resource == RLIMIT_AS)
		reserve_less(limit->rlim_cur);
	return cv_real(setrlimit)(resource, limit);
}

CV_EXPORT int prlimit(pid_t pid, enum __rlimit_resource resource, const struct rlimit *limit, struct rlimit *old)
{
	if (resource == RLIMIT_AS && limit && (pid == 0 || (cv_arena && (uint32_t)pid == cv_arena->pid)))
		reserve_less(limit->rlim_cur);
	return cv_real(prlimit)(pid, resource, limit, old);
}

/* The same functions: struct rlimit64 is struct rlimit on 64-bit machines. */
CV_EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
	__attribute__((alias("setrlimit")));
CV_EXPORT int prlimit64(pid_t pid, enum __rlimit_resource resource, const struct rlimit64 *limit, struct rlimit64 *old)
	__attribute__((alias("prlimit")));

CV_EXPORT int mlockall(int flags)
{
	int r = cv_real(mlockall)(flags);
	struct rlimit limit;

	if (r == 0 || errno != ENOMEM || !cv_process_own())
		return r;
	/* All address space counts, locked or not: try again with less of it. */
	if (cv_syscall(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, (long)&limit, 0, 0) == 0)
		reserve_less(limit.rlim_cur);
	return cv_real(mlockall)(flags);
}
