/* Four threads, one reader-writer lock: a short read 99 times of 100, a write else. */
#include "bench.h"

enum { THREADS = 4 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static uint64_t turns, value;

static void *worker(void *number)
{
	uint64_t sum = (uint64_t)(intptr_t)number;

	for (uint64_t i = 0; i < turns; i++) {
		if (i % 100 == 99) {
			pthread_rwlock_wrlock(&lock);
			value += sum;
		} else {
			pthread_rwlock_rdlock(&lock);
			sum += value;
		}
		pthread_rwlock_unlock(&lock);
		bench_work(20);
	}
	return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
	turns = bench_ops(argc, argv, 3000000);
	bench_end(bench_threads(THREADS, worker), THREADS * turns);
	return 0;
}
