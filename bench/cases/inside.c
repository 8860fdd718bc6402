/* Threads that are nearly always inside of critical sections of a microsecond or so, each with a mutex of its own: what code
 * costs while it is looked into. BODY: 0 integers in a table, 1 a list that is allocated and freed, 2 a sort with calls
 * through a pointer. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { THREADS = 2, WORDS = 256, NODES = 16 };

static uint64_t turns;

struct node {
	struct node *next;
	uint64_t value;
};

#if BODY == 0
static uint64_t body(uint64_t *words, uint64_t seed)
{
	uint64_t sum = 0;

	for (int i = 0; i < WORDS; i++) {
		uint64_t other = words[(seed + (uint64_t)i * 7) % WORDS];

		sum += words[i];
		words[i] = other & 1 ? sum ^ other : sum + (other >> 3);
	}
	return seed + sum;
}
#elif BODY == 1
static uint64_t body(uint64_t *words, uint64_t seed)
{
	struct node *list = NULL;

	for (int i = 0; i < NODES; i++) {
		struct node *node = malloc(sizeof *node + seed % 100);

		node->next = list;
		node->value = seed += words[i];
		list = node;
	}
	while (list) {
		struct node *next = list->next;

		seed ^= list->value;
		free(list);
		list = next;
	}
	return seed;
}
#else
static int less(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t body(uint64_t *words, uint64_t seed)
{
	for (int i = 0; i < NODES; i++)
		words[i] = seed = seed * 6364136223846793005u + 1442695040888963407u;
	qsort(words, NODES, sizeof *words, less);
	return seed + words[0];
}
#endif

static void *worker(void *number)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t words[WORDS], seed = (uint64_t)(intptr_t)number + 88172645463325252u;

	for (int i = 0; i < WORDS; i++)
		words[i] = seed * (uint64_t)(i + 1);
	for (uint64_t i = 0; i < turns; i++) {
		pthread_mutex_lock(&lock);
		seed = body(words, seed);
		pthread_mutex_unlock(&lock);
	}
	return (void *)(intptr_t)(seed & 1);
}

int main(int argc, char **argv)
{
	turns = bench_ops(argc, argv, 300000);
	bench_end(bench_threads(THREADS, worker), THREADS * turns);
	return 0;
}
