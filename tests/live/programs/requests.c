/*
 * requests: two threads answer requests; what lies between beginning and end is marked as coz.h
 * does, and takes two thirds of the time. First argument: requests of each thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

/* coz_counter_t. */
struct counter {
	size_t count, backoff;
};

static struct counter *begun, *ended;
static volatile uint64_t sink;
static long requests = 40000;

static void visit(struct counter *counter)
{
	if (counter)
		__atomic_add_fetch(&counter->count, 1, __ATOMIC_RELAXED);
}

static void work(int links)
{
	uint64_t x = 1;

	for (int i = 0; i < links; i++)
		x = x * 6364136223846793005u + 1;
	sink = x;
}

static NOINLINE void answer(void)
{
	work(60000);
}

static NOINLINE void prepare(void)
{
	work(30000);
}

static void *worker(void *arg)
{
	for (long i = 0; i < requests; i++) {
		visit(begun);
		answer();
		visit(ended);
		prepare();
	}
	return arg;
}

int main(int argc, char **argv)
{
	struct counter *(*counter)(int, const char *);
	pthread_t threads[2];

	if (argc > 1)
		requests = atol(argv[1]);
	counter = (struct counter * (*)(int, const char *))dlsym(RTLD_DEFAULT, "_coz_get_counter");
	if (counter) {
		begun = counter(2, "request");
		ended = counter(3, "request");
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
