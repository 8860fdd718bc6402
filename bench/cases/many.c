/* Four threads, 90,000 mutexes taken at random: what a profiler keeps for each lock must fit the caches. */
#include "bench.h"

enum { THREADS = 4, LOCKS = 90000 };

static struct {
	pthread_mutex_t lock;
	uint64_t value;
} cells[LOCKS];
static uint64_t turns;

static void *worker(void *number)
{
	uint64_t state = 88172645463325252u + (uint64_t)(intptr_t)number * 7919;

	for (uint64_t i = 0; i < turns; i++) {
		uint64_t cell = bench_random(&state) % LOCKS;

		pthread_mutex_lock(&cells[cell].lock);
		cells[cell].value++;
		pthread_mutex_unlock(&cells[cell].lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	turns = bench_ops(argc, argv, 6000000);
	for (int i = 0; i < LOCKS; i++)
		pthread_mutex_init(&cells[i].lock, NULL);
	bench_end(bench_threads(THREADS, worker), THREADS * turns);
	return 0;
}
