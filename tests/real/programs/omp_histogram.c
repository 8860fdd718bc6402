/* OpenMP: a histogram that every thread updates in one critical section, and a triangular loop whose static
 * schedule gives the second thread three quarters of the work. An argument: how many times
 * the work. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 2400, BUCKETS = 64 };

static uint64_t histogram[BUCKETS];

static uint64_t mix(uint64_t x)
{
	for (int i = 0; i < 40; i++)
		x = (x ^ (x >> 29)) * 0x9e3779b97f4a7c15u + (uint64_t)i;
	return x;
}

static uint64_t triangle(void)
{
	uint64_t sum = 0;

#pragma omp parallel for reduction(+ : sum) schedule(static)
	for (int row = 0; row < N; row++)
		for (int column = 0; column < row; column++)
			sum += mix((uint64_t)row * N + (uint64_t)column) >> 60;
	return sum;
}

static void count(void)
{
#pragma omp parallel for schedule(dynamic, 16)
	for (int i = 0; i < N * 100; i++) {
		uint64_t bucket = mix((uint64_t)i) % BUCKETS;
#pragma omp critical(histogram)
		histogram[bucket]++;
	}
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;
	uint64_t counted = 0, sum = 0;

	omp_set_num_threads(2);
	for (int i = 0; i < times; i++) {
		sum += triangle();
		count();
	}
	for (int i = 0; i < BUCKETS; i++)
		counted += histogram[i];
	printf("triangle %llu, counted %llu\n", (unsigned long long)sum, (unsigned long long)counted);
	return 0;
}
