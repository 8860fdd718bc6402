/* One thread, one mutex, in a process that never had another thread: the C library has a shorter path for it. */
#include "bench.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t value;

int main(int argc, char **argv)
{
	uint64_t turns = bench_ops(argc, argv, 40000000);
	struct bench_start start = bench_start();

	for (uint64_t i = 0; i < turns; i++) {
		pthread_mutex_lock(&lock);
		value++;
		pthread_mutex_unlock(&lock);
	}
	bench_end(start, turns);
	return 0;
}
