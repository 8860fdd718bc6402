/*
 * omp_sum: a parallel loop that adds its results up in a critical region, or by a reduction.
 *
 * threads=4 turns=1000000 gap=300
 * sum=critical | reduction
 */
#include "program.h"

#include <omp.h>

static NOINLINE uint64_t sum_critical(uint64_t turns, uint64_t gap)
{
	uint64_t sum = 0;

#pragma omp parallel for
	for (uint64_t i = 0; i < turns; i++) {
		uint64_t x = work(i, gap) & 1;

#pragma omp critical(sum_lock)
		sum += x + 1;
	}
	return sum;
}

static NOINLINE uint64_t sum_reduction(uint64_t turns, uint64_t gap)
{
	uint64_t sum = 0;

#pragma omp parallel for reduction(+ : sum)
	for (uint64_t i = 0; i < turns; i++) {
		uint64_t x = work(i, gap) & 1;

		sum += x + 1;
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t turns, gap, sum;

	(void)argc;
	options = argv;
	turns = number("turns", 1000000);
	gap = number("gap", 300);
	omp_set_num_threads((int)number("threads", 4));
	sum = is_option("sum", "reduction") ? sum_reduction(turns, gap) : sum_critical(turns, gap);
	check(sum >= turns && sum <= 2 * turns, "sum");
	return 0;
}
