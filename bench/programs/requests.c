/*
 * requests: clients look something up under one lock and format the answer; then they think. Prints
 * the mean latency of a request in nanoseconds.
 *
 * threads=3 turns=20000 lookup=30000 format=10000 think=60000   links of work
 */
#include "program.h"

#include <time.h>

static pthread_mutex_t index_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t turns, lookup_links, format_links, think_links;
static uint64_t latency_ns[MAX_THREADS];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static NOINLINE uint64_t request_begin(void)
{
	return now_ns();
}

static NOINLINE uint64_t request_end(uint64_t began)
{
	return now_ns() - began;
}

static NOINLINE uint64_t lookup(uint64_t x)
{
	return work_inline(x, lookup_links);
}

static NOINLINE uint64_t format_answer(uint64_t x)
{
	return work_inline(x, format_links);
}

static NOINLINE uint64_t think(uint64_t x)
{
	return work_inline(x, think_links);
}

static void *client_main(void *arg)
{
	uint64_t number = (uintptr_t)arg, x = number, all = 0;

	for (uint64_t i = 0; i < turns; i++) {
		uint64_t began = request_begin();

		pthread_mutex_lock(&index_lock);
		x = lookup(x);
		pthread_mutex_unlock(&index_lock);
		x = format_answer(x);
		all += request_end(began);
		x = think(x);
	}
	latency_ns[number] = all;
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group clients;
	uint64_t threads, all = 0;

	(void)argc;
	options = argv;
	threads = number("threads", 3);
	turns = number("turns", 20000);
	lookup_links = number("lookup", 30000);
	format_links = number("format", 10000);
	think_links = number("think", 60000);
	start(&clients, threads, client_main, "client");
	join(&clients);
	for (uint64_t i = 0; i < threads; i++)
		all += latency_ns[i];
	printf("%llu\n", (unsigned long long)(all / (threads * turns)));
	return 0;
}
