/* Two threads, each with a mutex of its own on a cache line of its own: the worst case of a profiler, when there is
 * nothing in the section (WORK 0), and what remains of it behind 20 ns of work. */
#include "bench.h"

#ifndef WORK
#define WORK 0
#endif

enum { THREADS = 2 };

static struct {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	uint64_t value;
} own[THREADS];
static uint64_t turns;

static void *worker(void *number)
{
	for (uint64_t i = 0; i < turns; i++) {
		pthread_mutex_lock(&own[(intptr_t)number].lock);
		own[(intptr_t)number].value++;
		if (WORK)
			bench_work(WORK);
		pthread_mutex_unlock(&own[(intptr_t)number].lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	turns = bench_ops(argc, argv, WORK ? 10000000 : 20000000);
	for (int i = 0; i < THREADS; i++)
		pthread_mutex_init(&own[i].lock, NULL);
	bench_end(bench_threads(THREADS, worker), THREADS * turns);
	return 0;
}
