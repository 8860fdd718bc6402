/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CPU time of a thread for the price of the cycle counter.
 *
 * The kernel clears the field rseq_cs of a thread's restartable sequence area (rseq(2)) whenever it
 * takes the thread off its processor, or delivers a signal to it, outside of the sequence that is
 * named there. A sequence that is never executed makes a flag of the field: while it is set, CPU
 * time has passed as the cycle counter has. Programs with sequences of their own overwrite the
 * field: there each reading is a system call, and right. Agent rules: ../cv_agent.h.
 */
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>

#include "../cv_sandbox.h"
#include "cv_causal.h"

#include "../cv_banned.h"

#if defined(__x86_64__)
#define SIGNATURE 0x53053053u
#elif defined(__aarch64__)
#define SIGNATURE 0xd428bc00u
#endif

/* The fields that are used of the C library's struct rseq, whose layout the kernel's ABI fixes. */
struct rseq_area {
	uint32_t cpu_id_start;
	int32_t cpu_id; /* negative: not registered */
	uint64_t rseq_cs;
};

/* The kernel's struct rseq_cs. */
static struct {
	uint64_t version_flags, start, length, handler;
} descriptor __attribute__((aligned(32)));

/* The kernel looks for the signature in front of the abort handler, and at nothing else of this. */
static const struct {
	char nowhere[32]; /* the sequence */
	uint32_t before;
	uint32_t signature;
	char handler[8];
} code __attribute__((aligned(32))) = { .signature = SIGNATURE };

static ptrdiff_t offset; /* of the area, from the thread pointer */
static bool works;

static uint64_t *flag(void)
{
	return &((struct rseq_area *)((char *)__builtin_thread_pointer() + offset))->rseq_cs;
}

static bool is_armed(void)
{
	return __atomic_load_n(flag(), __ATOMIC_RELAXED) == (uint64_t)(uintptr_t)&descriptor;
}

static void arm(void)
{
	__atomic_store_n(flag(), (uint64_t)(uintptr_t)&descriptor, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

bool cv_causal_clock_init(void)
{
	static bool tested;
	const ptrdiff_t *at;
	const unsigned *size;
	struct timespec shortest = { 0, 1 };

	if (tested) /* the child of a fork has what its parent has */
		return works;
	tested = true;
	at = dlvsym(RTLD_DEFAULT, "__rseq_offset", "GLIBC_2.35");
	size = dlvsym(RTLD_DEFAULT, "__rseq_size", "GLIBC_2.35");
	if (!at || !size || *size == 0 || cv_session.clock_kind != CV_CLOCK_TSC)
		return false;
	descriptor.start = (uint64_t)(uintptr_t)code.nowhere;
	descriptor.length = 1;
	descriptor.handler = (uint64_t)(uintptr_t)code.handler;
	offset = *at;
	if (((struct rseq_area *)((char *)__builtin_thread_pointer() + offset))->cpu_id < 0 || *flag())
		return false;
	arm();
	cv_syscall(SYS_nanosleep, (long)&shortest, 0, 0, 0, 0, 0);
	works = *flag() == 0; /* sleeping must clear it */
	__atomic_store_n(flag(), 0, __ATOMIC_RELAXED);
	return works;
}

uint64_t cv_causal_cpu_ns_exact(void)
{
	struct timespec ts = { 0, 0 };

	cv_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&ts, 0, 0, 0, 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A program may give the counter up at any time (PR_SET_TSC): reading it would end it then. */
static bool has_ticks(void)
{
	return cv_likely(__atomic_load_n(&cv_session.clock_kind, __ATOMIC_RELAXED) == CV_CLOCK_TSC);
}

static CV_NOINLINE uint64_t cpu_ns_anew(struct cv_causal_work *w)
{
	uint64_t found;

	if (!works || !has_ticks())
		return cv_causal_cpu_ns_exact();
	found = __atomic_load_n(flag(), __ATOMIC_RELAXED);
	if (found && !is_armed()) /* the program's own sequence */
		return cv_causal_cpu_ns_exact();
	for (int tries = 0; tries < 3; tries++) {
		uint64_t ticks;

		arm();
		ticks = cv_ticks();
		w->base_ns = cv_causal_cpu_ns_exact();
		w->base_ticks = ticks + (cv_ticks() - ticks) / 2;
		if (is_armed())
			break;
	}
	return w->base_ns;
}

uint64_t cv_causal_cpu_ns(struct cv_causal_thread *t)
{
	struct cv_causal_work *w = cv_causal_work(t);
	uint64_t ticks = has_ticks() ? cv_ticks() : 0;

	if (cv_unlikely(!ticks || !works || !w->base_ticks || !is_armed()))
		return cpu_ns_anew(w);
	/* A sample may have taken a newer base since `ticks` was read. */
	return w->base_ns + (ticks > w->base_ticks ? cv_ticks_to_ns(ticks - w->base_ticks) : 0);
}

/* Longer spins than this ask the CPU clock at their end, as the thread may have been switched
 * out, and end with the window. */
#define UNCHECKED_MOST_NS 20000u

static void spin_by_ticks(uint64_t ns)
{
	uint64_t from = cv_ticks();

	while (cv_ticks_to_ns(cv_ticks() - from) < ns)
		cv_causal_relax();
}

void cv_causal_spin(struct cv_causal_thread *t, uint64_t ns)
{
	uint64_t end, now, left;

	if (cv_unlikely(ns > UNCHECKED_MOST_NS)) {
		left = cv_causal_left();
		ns = ns < left ? ns : left;
	}
	__atomic_store_n(&t->added_ns, t->added_ns + ns, __ATOMIC_RELAXED);
	if (has_ticks() && ns <= UNCHECKED_MOST_NS) {
		spin_by_ticks(ns);
		return;
	}
	now = cv_causal_cpu_ns_exact();
	for (end = now + ns; now < end && !cv_is_quiet(); now = cv_causal_cpu_ns_exact())
		if (has_ticks())
			spin_by_ticks(end - now);
}
