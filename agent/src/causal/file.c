/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The experiment file of a process image, and its records of threads. Agent rules:
 * ../cv_agent.h. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../cv_attach.h"
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

/* In the child of a fork: where its file comes to lie, as the program may have addresses there
 * (coz.h). */
static struct cv_causal *parents;

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

/* Nobody's memory in place of a file: for stores of counters that the program has the address of
 * (coz.h), and of threads that are behind by one hook. */
static void forget(struct cv_causal *f)
{
	cv_syscall(SYS_mmap, (long)f, CV_CAUSAL_BYTES, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static bool map(long fd)
{
	long at = cv_syscall(SYS_mmap, (long)parents, CV_CAUSAL_BYTES, PROT_READ | PROT_WRITE,
			     MAP_SHARED | (parents ? MAP_FIXED : 0), fd, 0);

	if (failed(at))
		return false;
	if (!has_memory(at, fd) ||
	    failed(cv_syscall(SYS_mmap, (long)&cv_causal_page, CV_CAUSAL_MAP, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
			      CV_CAUSAL_CONTROL_AT))) {
		if (parents)
			forget(parents);
		else
			cv_syscall(SYS_munmap, at, CV_CAUSAL_BYTES, 0, 0, 0, 0);
		return false;
	}
	parents = NULL;
	cv_causal_file = (struct cv_causal *)at;
	return true;
}

void cv_causal_begin(void)
{
	struct cv_causal *f;
	uint32_t pid = cv_outside_pid ? cv_outside_pid : cv_arena->pid;
	long fd = cv_is_quiet() ? -EPERM : cv_side_file_create('c', pid, CV_CAUSAL_BYTES);
	bool mapped;

	if (cv_causal_file) { /* attached once more */
		cv_causal_sampling_disarm_all();
		forget(cv_causal_file);
	}
	cv_causal_file = NULL;
	mapped = fd >= 0 && map(fd);
	if (fd >= 0)
		cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	if (!mapped)
		return;
	f = cv_causal_file;
	f->version = CV_CAUSAL_VERSION;
	f->pid = pid;
	f->bytes = CV_CAUSAL_BYTES;
	f->arena_start_ns = cv_arena->start_ns;
	f->flags = cv_causal_clock_init() ? CV_CAUSAL_CPU_CLOCK : 0;
	cv_causal_sampling_init(f);
	__atomic_store_n(&f->magic, CV_CAUSAL_MAGIC, __ATOMIC_RELEASE);
	if (cv_self)
		cv_causal_thread_begins(cv_self->tid);
}

void cv_causal_forked(void)
{
	/* Counters and control page are the parent's: not one store may go there, and no experiment of it
	 * concerns the child. */
	cv_causal_self = NULL;
	cv_causal_queues_forked();
	cv_causal_lifted_forked();
	if (!cv_causal_file)
		return;
	parents = cv_causal_file;
	cv_causal_file = NULL;
	if (cv_is_quiet())
		return;
	forget(parents);
	cv_syscall(SYS_mmap, (long)&cv_causal_page, CV_CAUSAL_MAP, PROT_READ,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (cv_attach_is_in())
		cv_causal_signal_give_back();
}

/* ---- windows ---- */

uint64_t cv_causal_left(void)
{
	struct cv_causal *f = cv_causal_file;
	uint32_t window = cv_causal_window();
	uint64_t until = cv_causal_control()->until_ns, now = cv_now();
	struct cv_causal_control *c;

	if (!window || !f)
		return 0;
	if (now < until)
		return until - now;
	c = (struct cv_causal_control *)((char *)f + CV_CAUSAL_CONTROL_AT);
	__atomic_compare_exchange_n(&c->window, &window, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return 0;
}

/* ---- threads ---- */

static void raise(uint32_t *most, uint32_t to)
{
	uint32_t found = __atomic_load_n(most, __ATOMIC_RELAXED);

	while (found < to && !__atomic_compare_exchange_n(most, &found, to, true, __ATOMIC_RELEASE,
							  __ATOMIC_RELAXED))
		;
}

static struct cv_causal_thread *claim(uint32_t tid)
{
	struct cv_causal *f = cv_causal_file;
	struct cv_causal_thread *t = (struct cv_causal_thread *)((char *)f + CV_CAUSAL_THREADS_AT);

	for (uint32_t i = 0; f && i < CV_CAUSAL_THREADS; i++, t++) {
		uint32_t none = 0;

		if (__atomic_load_n(&t->tid, __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&t->tid, &none, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		memset(t->working, 0, sizeof(t->working));
		t->handling = 0;
		t->groups = 0; /* of the thread that had the record before */
		raise(&f->threads, i + 1);
		return t;
	}
	return NULL;
}

static void release(struct cv_causal_thread *t)
{
	cv_causal_sampling_disarm(t);
	__atomic_store_n(&t->tid, 0, __ATOMIC_RELEASE);
}

static bool is_in_file(const struct cv_causal_thread *t)
{
	const char *file = (const char *)cv_causal_file;

	return file && (uint64_t)((const char *)t - file) < CV_CAUSAL_BYTES;
}

void cv_causal_thread_begins(uint32_t tid)
{
	struct cv_causal_thread *t;

	if (cv_causal_self && is_in_file(cv_causal_self))
		return; /* a sample came first */
	t = claim(tid);
	if (!t)
		return;
	cv_causal_sampling_arm(t);
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
	release(t);
}

struct cv_causal_thread *cv_causal_thread_sampled(void)
{
	struct cv_causal_thread *t = cv_causal_self;
	uint32_t tid = (uint32_t)cv_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);

	/* One that clone() made without storage of its own sees the record of another. */
	if (t && is_in_file(t))
		return t->tid == tid ? t : NULL;
	/* Where the agent was attached, threads run that no hook has seen. */
	if (cv_attach_is_in())
		cv_causal_self = claim(tid);
	return cv_attach_is_in() ? cv_causal_self : NULL;
}
