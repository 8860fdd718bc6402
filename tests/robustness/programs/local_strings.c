/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Two threads that make strings of their own under one lock: all that they share is the allocator. For a number of sections,
 * or for a time. */
#include "rob.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long rounds, ms;

static FX_NOINLINE void own_strings(int i)
{
	char *text, *copy;

	MUST(!pthread_mutex_lock(&lock));
	text = malloc(200);
	MUST(text);
	memset(text, 'a' + i % 26, 199);
	text[199] = '\0';
	copy = strdup(text);
	MUST(copy && strlen(copy) == 199);
	free(copy);
	free(text);
	MUST(!pthread_mutex_unlock(&lock));
}

static uint64_t now_ms(void)
{
	struct timespec t;

	MUST(!clock_gettime(CLOCK_MONOTONIC, &t));
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void *worker(void *arg)
{
	uint64_t until = now_ms() + (uint64_t)ms;

	for (int i = 0; i < rounds || (ms && now_ms() < until); i++)
		own_strings(i);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	MUST(argc == 3);
	*(is(argv, "rounds") ? &rounds : &ms) = atol(argv[2]);
	for (int i = 0; i < 2; i++)
		threads[i] = start(worker, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	puts("done");
	return 0;
}
