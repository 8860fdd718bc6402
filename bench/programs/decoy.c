/*
 * decoy: two threads meet after each round. The hot function of the lighter one is worth nothing:
 * it waits for the heavier one anyway.
 *
 * rounds=10000 heavy=200000 light=120000   links of work of each thread in a round
 */
#include "program.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t met = PTHREAD_COND_INITIALIZER;
static uint64_t rounds, heavy_links, light_links, arrived, finished;

static NOINLINE uint64_t heavy_work(uint64_t x)
{
	return work_inline(x, heavy_links);
}

static NOINLINE uint64_t light_work(uint64_t x)
{
	return work_inline(x, light_links);
}

static void meet(void)
{
	uint64_t round;

	pthread_mutex_lock(&lock);
	round = finished;
	if (++arrived == 2) {
		arrived = 0;
		finished++;
		pthread_cond_signal(&met);
	}
	while (finished == round)
		pthread_cond_wait(&met, &lock);
	pthread_mutex_unlock(&lock);
}

static void *heavy(void *arg)
{
	uint64_t x = 1;

	for (uint64_t i = 0; i < rounds; i++) {
		x = heavy_work(x);
		meet();
	}
	sink = x;
	return arg;
}

static void *light(void *arg)
{
	uint64_t x = 1;

	for (uint64_t i = 0; i < rounds; i++) {
		x = light_work(x);
		meet();
	}
	sink = x;
	return arg;
}

int main(int argc, char **argv)
{
	struct group first, second;

	(void)argc;
	options = argv;
	rounds = number("rounds", 10000);
	heavy_links = number("heavy", 200000);
	light_links = number("light", 120000);
	start(&first, 1, heavy, "heavy");
	start(&second, 1, light, "light");
	join(&first);
	join(&second);
	return 0;
}
