// Calls a small function in batches, and prints for every fifth of a second what a call took in the
// fastest batch, nanoseconds. Between batches it does something else, so that probes are a small
// part of its time: convoy would thin them out.
#include <stdio.h>
#include <time.h>

#define BATCH 5000

__attribute__((noinline, noclone)) unsigned long probed(unsigned long x)
{
	return (x * 31 << 7) ^ 5;
}

static double now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e9 * now.tv_sec + now.tv_nsec;
}

int main(void)
{
	volatile unsigned long sink = 1;
	for (;;) {
		double began = now_ns(), best = 1e18;
		while (now_ns() - began < 2e8) {
			double start = now_ns();
			unsigned long x = sink;
			for (int i = 0; i < BATCH; i++)
				x = probed(x);
			sink = x;
			double each = (now_ns() - start) / BATCH;
			best = each < best ? each : best;
			for (start = now_ns(); now_ns() - start < 2e6;)
				;
		}
		printf("%.3f\n", best);
		fflush(stdout);
	}
}
