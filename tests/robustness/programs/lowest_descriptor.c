/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts on open() to give the lowest free number, while other threads, which open nothing, come and go. */
#include "rob.h"

#include <fcntl.h>

static int stop;

static void *does_nothing(void *arg)
{
	return arg;
}

static void *makes_threads(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		pthread_join(start(does_nothing, NULL), NULL);
	return arg;
}

int main(void)
{
	pthread_t maker = start(makes_threads, NULL);
	int other = 0;

	for (int i = 0; i < 100000; i++) {
		close(0);
		if (open("/dev/null", O_RDONLY) != 0) {
			other = 1;
			break;
		}
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(maker, NULL);
	printf("lowest number: %s\n", other ? "not always" : "always");
	return 0;
}
