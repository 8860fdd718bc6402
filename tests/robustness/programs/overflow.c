/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Recursion without end, with a lock operation in every frame: SIGSEGV, also when it is a hook that touches the guard page. */
#include "rob.h"

static FX_NOINLINE int deeper(int n)
{
	volatile char frame[100];

	if (n < 0)
		return 0;
	frame[0] = (char)n;
	counted_section(1);
	return deeper(n + 1) + frame[0];
}

static void *recurses(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)deeper(0);
}

int main(int argc, char **argv)
{
	(void)argc;
	puts("recursing");
	fflush(stdout);
	if (is(argv, "main"))
		return deeper(0);
	if (is(argv, "thread"))
		pthread_join(start(recurses, NULL), NULL);
	return no_such_way(argv);
}
