/*
 * critical_section: threads that take turns at one lock.
 *
 * rounds=2000000 threads=2 inside=177 outside=885   links of work under the lock, and without it
 */
#include "program.h"

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t rounds, inside_links, outside_links, done;

static NOINLINE uint64_t work_inside(uint64_t x)
{
	return work_inline(x, inside_links);
}

static NOINLINE uint64_t work_outside(uint64_t x)
{
	return work_inline(x, outside_links);
}

static void *worker(void *arg)
{
	uint64_t x = 1;

	for (;;) {
		pthread_mutex_lock(&shared_lock);
		if (done == rounds)
			break;
		done++;
		x = work_inside(x);
		pthread_mutex_unlock(&shared_lock);
		x = work_outside(x);
	}
	pthread_mutex_unlock(&shared_lock);
	sink = x;
	return arg;
}

int main(int argc, char **argv)
{
	struct group workers;

	(void)argc;
	options = argv;
	rounds = number("rounds", 2000000);
	inside_links = number("inside", 177);
	outside_links = number("outside", 885);
	start(&workers, number("threads", 2), worker, "worker");
	join(&workers);
	check(done == rounds, "rounds");
	return 0;
}
