/* Four threads, one mutex: 200 ns in the section, 1 us outside. */
#include "bench.h"

enum { THREADS = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t turns, value;

static void *worker(void *unused)
{
	(void)unused;
	for (uint64_t i = 0; i < turns; i++) {
		pthread_mutex_lock(&lock);
		value++;
		bench_work(200);
		pthread_mutex_unlock(&lock);
		bench_work(1000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	turns = bench_ops(argc, argv, 200000);
	bench_end(bench_threads(THREADS, worker), THREADS * turns);
	return 0;
}
