/*
 * sleep_under_lock: threads that sleep while they hold the lock, as others do I/O.
 *
 * rounds=2000 threads=4 sleep_us=1000 outside=200000   links of work without the lock
 */
#include "program.h"

#include <time.h>

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t rounds, outside_links, done;
static struct timespec asleep;

static NOINLINE uint64_t prepare(uint64_t x)
{
	return work_inline(x, outside_links);
}

static void *worker(void *arg)
{
	uint64_t x = 1;

	for (;;) {
		pthread_mutex_lock(&device_lock);
		if (done == rounds)
			break;
		done++;
		nanosleep(&asleep, NULL);
		pthread_mutex_unlock(&device_lock);
		x = prepare(x);
	}
	pthread_mutex_unlock(&device_lock);
	sink = x;
	return arg;
}

int main(int argc, char **argv)
{
	struct group workers;

	(void)argc;
	options = argv;
	rounds = number("rounds", 2000);
	outside_links = number("outside", 200000);
	asleep.tv_nsec = (long)(number("sleep_us", 1000) * 1000);
	start(&workers, number("threads", 4), worker, "worker");
	join(&workers);
	check(done == rounds, "rounds");
	return 0;
}
