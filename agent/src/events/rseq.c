/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Preemptions, seen without a system call and without any rights.
 *
 * Since 2.35 the C library registers a restartable sequence area (rseq(2)) for every thread. Its field
 * rseq_cs names a sequence of instructions that must not be interrupted. When the kernel takes a thread
 * off its processor, or delivers a signal to it, outside of the sequence that is named, it clears the
 * field (linux/rseq.h). A sequence that is never executed therefore turns the field into a flag: "was
 * off the processor since". Programs with sequences of their own overwrite the field; there the flag
 * means nothing, and nothing is claimed. Agent rules: ../cv_agent.h.
 */
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>

#include "../cv_sandbox.h"
#include "cv_event_file.h"

#include "../cv_banned.h"

#if defined(__x86_64__)
#define SIGNATURE 0x53053053u
#elif defined(__aarch64__)
#define SIGNATURE 0xd428bc00u
#endif

/* The kernel looks for the signature in front of the abort handler, and at nothing else of this. */
static const struct {
	char nowhere[32]; /* the sequence */
	uint32_t before;
	uint32_t signature;
	char handler[8];
} code __attribute__((aligned(32))) = { .signature = SIGNATURE };

struct cv_event_descriptor cv_event_descriptor;

/* Stands in where nothing is registered: never cleared, and on no processor. */
static struct cv_rseq unregistered = { .cpu_id = ~0u };

static ptrdiff_t offset; /* of the area, from the thread pointer */
static bool works;

#define FOREIGN_MOST 64u /* looks that found a sequence of the program's, until that is believed */

static struct cv_rseq *own_area(void)
{
	return (struct cv_rseq *)((char *)__builtin_thread_pointer() + offset);
}

static bool is_registered(const struct cv_rseq *area)
{
	return (int32_t)__atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED) >= 0;
}

static void arm(struct cv_rseq *area)
{
	__atomic_store_n(&area->rseq_cs, (uint64_t)(uintptr_t)&cv_event_descriptor, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Sleeping must clear it. */
static bool is_cleared_by_switch(struct cv_rseq *area)
{
	struct timespec shortest = { 0, 1 };
	bool cleared;

	if (__atomic_load_n(&area->rseq_cs, __ATOMIC_RELAXED))
		return false;
	arm(area);
	cv_syscall(SYS_nanosleep, (long)&shortest, 0, 0, 0, 0, 0);
	cleared = __atomic_load_n(&area->rseq_cs, __ATOMIC_RELAXED) == 0;
	__atomic_store_n(&area->rseq_cs, 0, __ATOMIC_RELAXED);
	return cleared;
}

bool cv_event_rseq_works(void)
{
	static bool tested;
	const ptrdiff_t *at;
	const unsigned *size;

	if (tested) /* the child of a fork has what its parent has */
		return works;
	tested = true;
	at = dlvsym(RTLD_DEFAULT, "__rseq_offset", "GLIBC_2.35");
	size = dlvsym(RTLD_DEFAULT, "__rseq_size", "GLIBC_2.35");
	unregistered.rseq_cs = (uint64_t)(uintptr_t)&cv_event_descriptor;
	cv_event_descriptor.start = (uint64_t)(uintptr_t)code.nowhere;
	cv_event_descriptor.length = 1;
	cv_event_descriptor.handler = (uint64_t)(uintptr_t)code.handler;
	if (!at || !size || *size == 0)
		return false;
	offset = *at;
	works = is_registered(own_area()) && is_cleared_by_switch(own_area());
	return works;
}

void cv_event_rseq_attach(struct cv_event_writer *w)
{
	struct cv_rseq *area = works ? own_area() : &unregistered;

	w->rseq = is_registered(area) ? area : &unregistered;
	w->foreign = 0;
	if (w->rseq->rseq_cs == 0)
		arm(w->rseq);
}

void cv_event_rseq_detach(struct cv_event_writer *w)
{
	if (w->rseq != &unregistered && !cv_event_switched(w))
		__atomic_store_n(&w->rseq->rseq_cs, 0, __ATOMIC_RELAXED);
	w->rseq = &unregistered;
}

bool cv_event_rseq_rearm(struct cv_event_writer *w)
{
	uint64_t found = __atomic_load_n(&w->rseq->rseq_cs, __ATOMIC_RELAXED);

	if (found == (uint64_t)(uintptr_t)&cv_event_descriptor)
		return false;
	if (found == 0) {
		w->foreign = 0;
		arm(w->rseq);
		return true;
	}
	/* Its sequence stays there until the kernel clears it, which may be long after it has ended. */
	if (++w->foreign >= FOREIGN_MOST) {
		w->rseq = &unregistered;
		if (cv_event_file)
			__atomic_fetch_or(&cv_event_file->flags, CV_EVENTS_RSEQ_FOREIGN, __ATOMIC_RELAXED);
	}
	return false;
}
