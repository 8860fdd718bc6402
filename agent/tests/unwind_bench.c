/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a call stack costs, by depth, in ns of CPU time: unwinding alone, a capture of a stack that was just
 * captured (memo), a capture of one that is known but must be unwound, and libgcc's unwinder.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "../src/cv_frames.h"
#include "../src/cv_unwind.h"

#define NOINLINE __attribute__((noinline, noclone))
#define ROUNDS 5

static uint64_t my_lo, my_hi;

uint64_t cv_stack_lo(void)
{
	return my_lo;
}

uint64_t cv_stack_hi(void)
{
	return my_hi;
}

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static _Unwind_Reason_Code count(struct _Unwind_Context *c, void *arg)
{
	(void)c;
	++*(int *)arg;
	return _URC_NO_REASON;
}

enum what { NOTHING, UNWIND, MEMO, KNOWN, LIBGCC };

/* Stands for a hook. */
NOINLINE static void hook(enum what what)
{
	const void *frame = __builtin_frame_address(0);
	struct cv_trace t;
	int n = 0;

	switch (what) {
	case NOTHING:
		break;
	case UNWIND:
		t.max = CV_STACK_MAX;
		t.skip_lo = t.skip_hi = 0;
		cv_unwind(frame, &t);
		break;
	case KNOWN:
		cv_stacks_doubt();
		/* fall through */
	case MEMO:
		cv_stack_capture_from(frame);
		break;
	case LIBGCC:
		_Unwind_Backtrace(count, &n);
		break;
	}
	__asm__ volatile("" : : "r"(&t), "r"(frame) : "memory");
}

static double result;

NOINLINE static int chain(int depth, enum what what)
{
	int r = 0;

	if (depth > 0) {
		r = chain(depth - 1, what);
	} else {
		double best = 1e9;
		int n = what == LIBGCC ? 2000 : 100000;

		for (int round = 0; round < ROUNDS; round++) {
			double start = now_ns();

			for (int i = 0; i < n; i++)
				hook(what);
			start = (now_ns() - start) / n;
			best = start < best ? start : best;
		}
		result = best;
	}
	__asm__ volatile("" : "+r"(r));
	return r + 1;
}

int main(void)
{
	static const int depths[] = {5, 10, 20, 40};
	static const char *const names[] = {"hook alone", "unwind", "capture, memo", "capture, known", "libgcc"};
	char dir[] = "/dev/shm/convoy-bench-XXXXXX", path[64];
	pthread_attr_t attr;
	size_t size;
	void *lo;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &lo, &size);
	my_lo = (uint64_t)lo;
	my_hi = my_lo + size;
	cv_session.arena_bytes = 64ull << 20;
	cv_session.stack_depth = CV_STACK_MAX;
	strcpy(cv_session_dir, mkdtemp(dir));
	if (!cv_arena_open(false))
		return 1;
	snprintf(path, sizeof(path), "%s/p%d.0", dir, getpid());
	unlink(path);
	rmdir(dir);
	printf("%-16s", "ns, at depth");
	for (size_t d = 0; d < sizeof(depths) / sizeof(*depths); d++)
		printf("%8d", depths[d]);
	putchar('\n');
	for (size_t w = 0; w < sizeof(names) / sizeof(*names); w++) {
		printf("%-16s", names[w]);
		for (size_t d = 0; d < sizeof(depths) / sizeof(*depths); d++) {
			/* main, its three callers in libc, and the last chain() are there anyway */
			chain(depths[d] - 5, (enum what)w);
			printf("%8.1f", result);
		}
		putchar('\n');
	}
	return 0;
}
