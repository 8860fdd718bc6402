/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The experiment file of a process image, and its records of threads. Agent rules:
 * ../cv_agent.h. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../cv_sandbox.h"
#include "../cv_side_file.h"
#include "cv_causal.h"

#include "../cv_banned.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

__thread struct cv_causal_thread *cv_causal_self;
struct cv_causal *cv_causal_file;
union cv_causal_page cv_causal_page;

static struct cv_causal *parents; /* in the child of a fork: what is mapped still */

static bool failed(long at)
{
	return at < 0 && at > -4096;
}

/* Without memory behind it a write would be a SIGBUS: all of it gets its memory now. */
static bool has_memory(long at, long fd)
{
	return cv_syscall(SYS_madvise, at, CV_CAUSAL_BYTES, MADV_POPULATE_WRITE, 0, 0, 0) == 0 ||
	       cv_syscall(SYS_fallocate, fd, 0, 0, CV_CAUSAL_BYTES, 0, 0) == 0;
}

static bool map(long fd)
{
	long at = cv_syscall(SYS_mmap, (long)parents, CV_CAUSAL_BYTES, PROT_READ | PROT_WRITE,
			     MAP_SHARED | (parents ? MAP_FIXED : 0), fd, 0);

	if (failed(at))
		return false;
	parents = NULL;
	if (!has_memory(at, fd) ||
	    failed(cv_syscall(SYS_mmap, (long)&cv_causal_page, CV_CAUSAL_MAP, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
			      CV_CAUSAL_CONTROL_AT))) {
		cv_syscall(SYS_munmap, at, CV_CAUSAL_BYTES, 0, 0, 0, 0);
		return false;
	}
	cv_causal_file = (struct cv_causal *)at;
	return true;
}

void cv_causal_begin(void)
{
	struct cv_causal *f;
	long fd = cv_is_quiet() ? -EPERM : cv_side_file_create('c', cv_arena->pid, CV_CAUSAL_BYTES);
	bool mapped = fd >= 0 && map(fd);

	if (fd >= 0)
		cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	if (!mapped)
		return;
	f = cv_causal_file;
	f->version = CV_CAUSAL_VERSION;
	f->pid = cv_arena->pid;
	f->bytes = CV_CAUSAL_BYTES;
	f->arena_start_ns = cv_arena->start_ns;
	f->flags = cv_causal_clock_init() ? CV_CAUSAL_CPU_CLOCK : 0;
	cv_causal_sampling_init(f);
	__atomic_store_n(&f->magic, CV_CAUSAL_MAGIC, __ATOMIC_RELEASE);
	if (cv_self)
		cv_causal_thread_begins(cv_self);
}

void cv_causal_forked(void)
{
	/* Counters and control page are the parent's: not one store may go there, and no experiment of it
	 * concerns the child. */
	cv_causal_self = NULL;
	cv_causal_queues_forked();
	if (!cv_causal_file)
		return;
	parents = cv_causal_file;
	cv_causal_file = NULL;
	if (!cv_is_quiet())
		cv_syscall(SYS_mmap, (long)&cv_causal_page, CV_CAUSAL_MAP, PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void cv_causal_thread_begins(struct cv_thread *thread)
{
	struct cv_causal *f = cv_causal_file;
	struct cv_causal_thread *t;
	uint32_t used;

	if (!f || thread->index >= CV_CAUSAL_THREADS)
		return;
	t = (struct cv_causal_thread *)((char *)f + CV_CAUSAL_THREADS_AT) + thread->index;
	memset(t->working, 0, sizeof(t->working)); /* its counters go on: the record may be one of an ended thread */
	cv_causal_sampling_thread(t);
	__atomic_store_n(&t->tid, thread->tid, __ATOMIC_RELEASE);
	used = __atomic_load_n(&f->threads, __ATOMIC_RELAXED);
	while (used <= thread->index &&
	       !__atomic_compare_exchange_n(&f->threads, &used, thread->index + 1, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cv_causal_self = t;
}

void cv_causal_thread_ends(void)
{
	struct cv_causal_thread *t = cv_causal_self;

	if (!t)
		return;
	cv_causal_self = NULL;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cv_causal_sampling_thread_ends(t);
	__atomic_store_n(&t->tid, 0, __ATOMIC_RELEASE);
}
