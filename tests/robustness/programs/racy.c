/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One data race, for ThreadSanitizer to find: with the agent in between it must still see every lock. */
#include "rob.h"

static int unprotected;

static void *races(void *arg)
{
	counted_section(101);
	for (int i = 0; i < 1009; i++)
		unprotected++;
	return arg;
}

int main(void)
{
	pthread_t a = start(races, NULL), b = start(races, NULL);

	pthread_join(a, NULL);
	pthread_join(b, NULL);
	return 0;
}
