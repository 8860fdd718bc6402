/*
 * One thread that works in `inner` for two callers, three times as long for `often` as for `seldom`,
 * and never in these themselves; beside it threads called idle-1 and idle-2, which only wait. A unit
 * of progress is one round: a mutex released.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static pthread_mutex_t rounds_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned sink;
static volatile int done;

NOINLINE static void inner(unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		sink = sink * 31 + i;
	__asm__ volatile("" ::: "memory");
}

NOINLINE static void often(void)
{
	inner(60000);
	__asm__ volatile("" ::: "memory");
}

NOINLINE static void seldom(void)
{
	inner(20000);
	__asm__ volatile("" ::: "memory");
}

static void *work(void *rounds)
{
	pthread_setname_np(pthread_self(), "busy-1");
	for (long i = 0; i < *(long *)rounds; i++) {
		often();
		seldom();
		pthread_mutex_lock(&rounds_lock);
		pthread_mutex_unlock(&rounds_lock);
	}
	return NULL;
}

static void *wait_for_end(void *name)
{
	pthread_setname_np(pthread_self(), name);
	while (!done)
		usleep(1000);
	return NULL;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 60000;
	pthread_t worker, idle[2];

	pthread_create(&worker, NULL, work, &rounds);
	pthread_create(&idle[0], NULL, wait_for_end, "idle-1");
	pthread_create(&idle[1], NULL, wait_for_end, "idle-2");
	pthread_join(worker, NULL);
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(idle[i], NULL);
	puts("done");
	return 0;
}
