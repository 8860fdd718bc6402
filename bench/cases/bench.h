/* What the cases share: a clock around their parallel region, and work of a fixed number of instructions, so
 * that two runs do the same. Each prints one line that bench/run reads. */
#ifndef BENCH_H
#define BENCH_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CACHE_LINE 64

struct bench_start {
	uint64_t elapsed_ns;
	uint64_t cpu_ns;
};

static inline uint64_t bench_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline struct bench_start bench_start(void)
{
	return (struct bench_start){ bench_clock_ns(CLOCK_MONOTONIC), bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) };
}

/* getrusage would tell the size of whoever started the program, too: it counts from before exec. */
static inline unsigned long long bench_peak_bytes(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	unsigned long long kb = 0;
	char line[256];

	while (status && fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %llu", &kb) != 1)
		;
	if (status)
		fclose(status);
	return kb * 1024;
}

/* CPU time of the process, all threads; the largest resident size, mapped shared memory included. */
static inline void bench_end(struct bench_start start, uint64_t ops)
{
	uint64_t elapsed_ns = bench_clock_ns(CLOCK_MONOTONIC) - start.elapsed_ns;
	uint64_t cpu_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start.cpu_ns;

	printf("elapsed_ns=%llu cpu_ns=%llu maxrss_bytes=%llu ops=%llu\n", (unsigned long long)elapsed_ns,
	       (unsigned long long)cpu_ns, bench_peak_bytes(), (unsigned long long)ops);
}

/* A chain of multiplications, each some 3 cycles: about one nanosecond. */
static inline void bench_work(unsigned links)
{
	uint64_t x = links;

	for (unsigned i = 0; i < links; i++) {
		x = x * 0x9e3779b97f4a7c15u + 1;
		__asm__ volatile("" : "+r"(x));
	}
}

static inline uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline uint64_t bench_ops(int argc, char **argv, uint64_t otherwise)
{
	return argc > 1 ? strtoull(argv[1], NULL, 10) : otherwise;
}

/* Runs `threads` threads of `routine` (its argument: the thread's number) and times them from a common start. */
static inline struct bench_start bench_threads(int threads, void *(*routine)(void *))
{
	pthread_t ids[64];
	struct bench_start start = bench_start();

	for (intptr_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, routine, (void *)i)) {
			perror("pthread_create");
			exit(1);
		}
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	return start;
}

#endif
