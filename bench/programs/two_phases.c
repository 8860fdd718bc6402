/*
 * two_phases: threads parse items under one lock, then compute, then parse again. Parsing matters
 * in its phase only.
 *
 * threads=2 rounds=20 items=1000   of each thread in each phase
 * parse=30000 compute=70000   links of work of an item
 */
#include "program.h"

static pthread_mutex_t input_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t result_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t phase_end;
static uint64_t rounds, items, parse_links, compute_links, parsed, computed;

static NOINLINE uint64_t parse_item(uint64_t x)
{
	return work_inline(x, parse_links);
}

static NOINLINE uint64_t compute_item(uint64_t x)
{
	return work_inline(x, compute_links);
}

static void *worker_main(void *arg)
{
	uint64_t x = (uintptr_t)arg;

	for (uint64_t round = 0; round < rounds; round++) {
		for (uint64_t i = 0; i < items; i++) {
			pthread_mutex_lock(&input_lock);
			x = parse_item(x);
			parsed++;
			pthread_mutex_unlock(&input_lock);
		}
		pthread_barrier_wait(&phase_end);
		for (uint64_t i = 0; i < items; i++) {
			x = compute_item(x);
			pthread_mutex_lock(&result_lock);
			computed++;
			pthread_mutex_unlock(&result_lock);
		}
		pthread_barrier_wait(&phase_end);
	}
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group workers;
	uint64_t threads, all;

	(void)argc;
	options = argv;
	threads = number("threads", 2);
	rounds = number("rounds", 20);
	items = number("items", 1000);
	parse_links = number("parse", 30000);
	compute_links = number("compute", 70000);
	pthread_barrier_init(&phase_end, NULL, (unsigned)threads);
	start(&workers, threads, worker_main, "worker");
	join(&workers);
	all = threads * rounds * items;
	check(parsed == all && computed == all, "items");
	return 0;
}
