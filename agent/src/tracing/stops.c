/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Functions of the C library that no section goes through: it is cut where it calls them. Agent rules: ../cv_agent.h. */
#include <dlfcn.h>

#include "cv_tracer.h"

#include "../cv_banned.h"

/* From these a section does not come back as one thread of one process, or not for long. */
static const char *const leaving[] = {
	"fork", "vfork", "daemon", "forkpty", "system", "popen", "exit", "quick_exit", "pthread_exit", "thrd_exit",
	"swapcontext", "setcontext", "dlopen", "dlmopen",
};

/* In these a thread can be cancelled. They wait so that the signal for it may come at any of their instructions, and its
 * handler unwinds the stack from there or, in newer libraries, looks whether it is there at all: neither works
 * in a cache. This is every function of glibc 2.36 that makes cancellation asynchronous (pthreads(7)), but those
 * that are hooks. */
static const char *const cancelled_in[] = {
	"accept", "accept4", "clock_nanosleep", "close", "connect", "copy_file_range", "creat", "creat64", "epoll_pwait",
	"epoll_pwait2", "epoll_wait", "fallocate", "fallocate64", "fcntl", "fcntl64", "fdatasync", "fsync", "getrandom",
	"mq_timedreceive", "mq_timedsend", "msgrcv", "msgsnd", "msync", "nanosleep", "open", "open64", "open_by_handle_at",
	"openat", "openat64", "pause", "poll", "ppoll", "pread", "pread64", "preadv", "preadv2", "preadv64", "preadv64v2",
	"pselect", "pwrite", "pwrite64", "pwritev", "pwritev2", "pwritev64", "pwritev64v2", "read", "readv", "recv",
	"recvfrom", "recvmmsg", "recvmsg", "select", "send", "sendmmsg", "sendmsg", "sendto", "sigsuspend", "sigtimedwait",
	"splice", "sync_file_range", "tcdrain", "tee", "vmsplice", "wait4", "waitid", "write", "writev",
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static uint64_t found[COUNT(leaving) + COUNT(cancelled_in)];
static uint32_t count;

static void find(const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)(uintptr_t)dlsym(RTLD_NEXT, names[i]);

		if (at)
			found[count++] = at;
	}
}

const uint64_t *cv_trace_stops(uint32_t *n)
{
	find(leaving, COUNT(leaving));
	if (cv_trace_cancels())
		find(cancelled_in, COUNT(cancelled_in));
	*n = count;
	return found;
}
