/* Very many threads, each of which waits a few times for the same condition: what has to be kept of each is what counts.
 * threads THREADS */
#include "bench.h"

enum { ROUNDS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER, open_gate = PTHREAD_COND_INITIALIZER;
static uint64_t waiting, round_number;

static void *worker(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&lock);
		uint64_t mine = round_number;

		waiting++;
		pthread_cond_signal(&arrived);
		while (round_number == mine)
			pthread_cond_wait(&open_gate, &lock);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t threads = bench_ops(argc, argv, 10000);
	struct bench_start start = bench_start();
	pthread_t *ids = calloc(threads, sizeof *ids);
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (uint64_t i = 0; ids && i < threads; i++)
		if (pthread_create(&ids[i], &small, worker, NULL)) {
			perror("pthread_create");
			return 1;
		}
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&lock);
		while (waiting < threads)
			pthread_cond_wait(&arrived, &lock);
		waiting = 0;
		round_number++;
		pthread_cond_broadcast(&open_gate);
		pthread_mutex_unlock(&lock);
	}
	for (uint64_t i = 0; ids && i < threads; i++)
		pthread_join(ids[i], NULL);
	free(ids);
	bench_end(start, threads * ROUNDS);
	return 0;
}
