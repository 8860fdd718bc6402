/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Functions of every shape of frame. Compiled once per set of compiler flags, with SHAPES naming the
 * resulting table, and called in random order by unwind_test.c: each does something that
 * gives it its kind of frame and goes on to the next.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "shapes.h"

#define KEEP(x) __asm__ volatile("" : : "r"(x) : "memory")
#define NOINLINE __attribute__((noinline, noclone))

NOINLINE static int plain(int depth)
{
	return go(depth) + 1;
}

NOINLINE static int with_alloca(int depth)
{
	size_t n = 16 + (unsigned)depth * 37 % 700;
	char *p = alloca(n);
	int r;

	memset(p, depth, n);
	KEEP(p);
	r = go(depth);
	KEEP(p);
	return r + p[n / 2];
}

NOINLINE static int with_big_frame(int depth)
{
	volatile char big[20000];
	int r;

	big[depth] = 1;
	r = go(depth);
	return r + big[depth];
}

/* The frame is realigned: its CFA needs an expression. */
NOINLINE static int with_aligned_local(int depth)
{
	__attribute__((aligned(64))) volatile char a[64];
	int r;

	a[0] = (char)depth;
	KEEP(a);
	r = go(depth);
	return r + a[0];
}

/* The same with arguments on the stack and alloca: the CFA is in a register of its own for a while. */
NOINLINE static int with_aligned_args(int a, int b, int c, int d, int e, int f, int g, int depth)
{
	__attribute__((aligned(128))) volatile char x[128];
	char *p = alloca(8 + (unsigned)g % 64);
	int r;

	x[1] = (char)(a + b + c + d + e + f + g);
	*p = x[1];
	KEEP(p);
	r = go(depth);
	return r + x[1] + *p;
}

NOINLINE static int aligned_args(int depth)
{
	return with_aligned_args(1, 2, 3, 4, 5, 6, depth, depth) + 1;
}

/* Uses every register that a call preserves. */
NOINLINE static int with_registers(int depth)
{
	int a = rand_next(), b = rand_next(), c = rand_next(), d = rand_next(), e = rand_next(), f = rand_next();
	int r = go(depth);

	return r + (a ^ b) + (c ^ d) + (e ^ f);
}

NOINLINE static int with_varargs_(int depth, ...)
{
	va_list ap;
	int r;

	va_start(ap, depth);
	r = go(depth) + va_arg(ap, int);
	va_end(ap);
	return r;
}

NOINLINE static int with_varargs(int depth)
{
	return with_varargs_(depth, 1, 2.0, 3) + 1;
}

/* Through libc, which has no frame pointers. */
static __thread int compare_depth;

NOINLINE static int compare(const void *a, const void *b)
{
	int depth = compare_depth;

	if (depth >= 0) {
		compare_depth = -1; /* once per sort */
		go(depth);
	}
	return *(const int *)a - *(const int *)b;
}

NOINLINE static int through_qsort(int depth)
{
	int v[] = {5, 3, 9, 1, 7, 2, 8};

	compare_depth = depth;
	qsort(v, sizeof(v) / sizeof(*v), sizeof(*v), compare);
	return v[0];
}

NOINLINE static int through_bsearch(int depth)
{
	int v[] = {1, 2, 3}, key = 2;

	compare_depth = depth;
	return bsearch(&key, v, 3, sizeof(*v), compare) != NULL;
}

static void visit(const void *node, VISIT which, int level)
{
	(void)node;
	(void)level;
	if ((which == leaf || which == postorder) && compare_depth >= 0) {
		int depth = compare_depth;

		compare_depth = -1;
		go(depth);
	}
}

NOINLINE static int through_twalk(int depth)
{
	int v[] = {5, 3, 9};
	void *root = NULL;

	compare_depth = -1;
	for (int i = 0; i < 3; i++)
		tsearch(&v[i], &root, compare);
	compare_depth = depth;
	twalk(root, visit);
	compare_depth = -1;
	for (int i = 0; i < 3; i++)
		tdelete(&v[i], &root, compare);
	return 1;
}

static void once(void)
{
	int depth = compare_depth;

	compare_depth = -1;
	go(depth);
}

NOINLINE static int through_once(int depth)
{
	pthread_once_t control = PTHREAD_ONCE_INIT;

	compare_depth = depth;
	pthread_once(&control, once);
	return 1;
}

shape *const SHAPES[] = {
	plain,	     with_alloca,  with_big_frame, with_aligned_local, aligned_args, with_registers,
	with_varargs, through_qsort, through_bsearch, through_twalk,	  through_once, NULL,
};
