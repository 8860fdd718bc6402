/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* More threads than a profiler would like: 5,000 alive at once, or 20,000 one after another. */
#include "rob.h"

#include <limits.h>

static pthread_barrier_t all_here;

static void *meets_all(void *arg)
{
	pthread_barrier_wait(&all_here);
	counted_section(3);
	return arg;
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 0;
	pthread_attr_t small;
	pthread_t *t = (pthread_t *)calloc((size_t)n + 1, sizeof *t);

	pthread_attr_init(&small);
	MUST(!pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN + 16384));
	if (is(argv, "together")) {
		pthread_barrier_init(&all_here, NULL, (unsigned)n);
		for (int i = 0; i < n; i++)
			MUST(!pthread_create(&t[i], &small, meets_all, NULL));
		for (int i = 0; i < n; i++)
			pthread_join(t[i], NULL);
	} else if (is(argv, "sequence")) {
		for (int i = 0; i < n; i++) {
			MUST(!pthread_create(&t[0], &small, counted_main, (void *)3));
			pthread_join(t[0], NULL);
		}
	} else {
		return no_such_way(argv);
	}
	printf("%d threads\n", n);
	return 0;
}
