/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What sections cost translated, compared with native: ns per section, the best of several rounds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host.h"
#include "play.h"

#define NOINLINE __attribute__((noinline))

static long numbers[1024], sum;
static char from[4096], to[4096];
static double real;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	return *(const long *)a < *(const long *)b ? -1 : *(const long *)a > *(const long *)b;
}

static NOINLINE long helper(int k)
{
	long s = 0;

	for (int i = 0; i < k; i++) {
		s += numbers[i] * 3;
		__asm__ volatile("" : "+r"(s));
	}
	return s;
}

static NOINLINE int choose(int x)
{
	switch (x) {
	case 0: return 5;
	case 1: return (int)helper(3);
	case 2: return (int)sum + 1;
	case 3: return 77;
	case 4: return choose(x - 1) + 1;
	case 5: return 9;
	case 6: return choose(2);
	default: return 0;
	}
}

static int (*volatile chosen)(int) = choose;

static void one_word(void) { sum++; }
static void loop(void) { sum += helper(64); }
static void writes(void)
{
	for (int i = 0; i < 1000; i++) {
		numbers[i & 1023] += i;
		__asm__ volatile("" : : : "memory");
	}
}
static void calls(void)
{
	for (int i = 0; i < 8; i++)
		sum += choose(i) + chosen(i);
}
static void sort(void)
{
	for (int i = 0; i < 200; i++)
		numbers[i] = (i * 7919) % 211;
	qsort(numbers, 200, sizeof(long), ascending);
}
static void print(void)
{
	char text[128];

	snprintf(text, sizeof(text), "%d %s %.3f %lx", 42, "hello", 3.25, 77l);
	for (int i = 0; i < 64; i++)
		real += (double)numbers[i] * 0.5;
	sum += text[0];
}
static void copy(void)
{
	char *volatile p = malloc(100);

	memcpy(p, from, 100);
	memset(to, p[3], 300);
	free(p);
	memcpy(to, from, 3000);
}
static void allocate(void)
{
	char *p[50];

	for (int i = 0; i < 50; i++) {
		p[i] = malloc(50 + (size_t)i * 37);
		__asm__ volatile("" : : "r"(p[i]) : "memory");
	}
	for (int i = 0; i < 50; i++)
		free(p[i]);
}

static double rounds(void (*run)(void), long times)
{
	double best = INFINITY;

	for (int round = 0; round < 7; round++) {
		double begin = now_ns(), each;

		for (long i = 0; i < times; i++) {
			section_begin();
			run();
			section_end();
		}
		each = (now_ns() - begin) / (double)times;
		best = each < best ? each : best;
	}
	return best;
}

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
		long times;
	} all[] = {
		{ "one word", one_word, 200000 }, { "loop over 64 words", loop, 50000 },
		{ "1000 words written", writes, 5000 }, { "calls, switch, recursion", calls, 20000 },
		{ "qsort of 200", sort, 500 }, { "snprintf and doubles", print, 5000 },
		{ "malloc, memcpy, memset, free", copy, 20000 }, { "50 malloc, 50 free", allocate, 3000 },
	};
	const char *why;

	if (!host_start(&why)) {
		puts(why);
		return 1;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		double native, translated;

		host_way = HOST_OFF;
		native = rounds(all[i].run, all[i].times);
		host_way = HOST_TRANSLATE;
		translated = rounds(all[i].run, all[i].times);
		host_way = HOST_OFF;
		printf("%-30s native %8.1f ns  translated %8.1f ns  %5.1fx  %7ld words\n", all[i].name, native, translated,
		       translated / native, (long)(host_record()->at - host_record()->words));
	}
	printf("%lu instructions of the program, %.1f bytes of code for each\n", host_file()->translated_instructions,
	       (double)host_file()->cache_bytes / (double)host_file()->translated_instructions);
	return 0;
}
