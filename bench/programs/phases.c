/*
 * phases: threads work between barriers, and thread 0 has `skew` times the share of the others.
 *
 * threads=2 phases=1000 work=400000 skew=3   links of work of all threads together in a phase
 * straggler=   links of thread 0 in a phase, instead of its share
 */
#include "program.h"

static pthread_barrier_t phase_end;
static uint64_t threads, phases, links, skew, straggler;

static void *phase_main(void *arg)
{
	uint64_t parts = threads - 1 + skew, x = (uintptr_t)arg;
	uint64_t share = links / parts * (arg ? 1 : skew);

	if (!arg && straggler)
		share = straggler;
	for (uint64_t i = 0; i < phases; i++) {
		x = work(x, share);
		pthread_barrier_wait(&phase_end);
	}
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group workers;

	(void)argc;
	options = argv;
	threads = number("threads", 2);
	phases = number("phases", 1000);
	links = number("work", 400000);
	skew = number("skew", 3);
	straggler = number("straggler", 0);
	check(threads >= 1 && threads <= MAX_THREADS && skew >= 1, "threads and skew of 1 or more");
	pthread_barrier_init(&phase_end, NULL, (unsigned)threads);
	start(&workers, threads, phase_main, "phase");
	join(&workers);
	return 0;
}
