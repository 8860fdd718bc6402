/* The worst case for whoever traces context switches: pairs of threads that do nothing but hand a byte to each other
 * through pipes, each pair on a processor of its own. Its ops are events: switches, and wake-ups (one for each wait).
 * switches HANDOFFS [PAIRS] */
#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"

enum { PAIRS = 16 };

struct pair {
	int there[2], back[2];
};

static struct pair pairs[PAIRS];
static uint64_t handoffs;

static void on_processor(int wanted)
{
	cpu_set_t allowed, one;
	int left = wanted;

	sched_getaffinity(0, sizeof allowed, &allowed);
	CPU_ZERO(&one);
	left %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && left-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

static void pass(const int *from, const int *to)
{
	char byte = 0;

	if ((from && read(from[0], &byte, 1) != 1) || (to && write(to[1], &byte, 1) != 1)) {
		perror("switches");
		exit(1);
	}
}

static void *worker(void *number)
{
	struct pair *pair = &pairs[(intptr_t)number / 2];
	bool first = (intptr_t)number % 2 == 0;

	on_processor((int)((intptr_t)number / 2));
	for (uint64_t i = 0; i < handoffs / 2; i++) {
		if (first)
			pass(NULL, pair->there);
		pass(first ? pair->back : pair->there, first ? NULL : pair->back);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int used = argc > 2 ? atoi(argv[2]) : 1;
	struct rusage usage;

	handoffs = bench_ops(argc, argv, 400000);
	for (int i = 0; i < used && i < PAIRS; i++)
		if (pipe(pairs[i].there) || pipe(pairs[i].back)) {
			perror("pipe");
			return 1;
		}
	struct bench_start start = bench_threads(2 * used, worker);

	getrusage(RUSAGE_SELF, &usage);
	bench_end(start, (uint64_t)(2 * usage.ru_nvcsw + usage.ru_nivcsw));
	return 0;
}
