/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Plain C and the C library. */
#include <regex.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "host.h"

#define NOINLINE __attribute__((noinline))

static long numbers[1024];
static char text[8192];

static void sum(uint8_t *result)
{
	section_begin();
	for (int i = 0; i < 64; i++)
		numbers[i] += i * 3;
	*(long *)result = numbers[5];
	section_end();
}

static NOINLINE int choose(int x)
{
	switch (x) {
	case 0: return 5;
	case 1: return (int)numbers[3];
	case 2: return 77;
	case 3: return choose(x - 1) + 1;
	case 4: return 9;
	case 5: return choose(2) * 2;
	default: return 0;
	}
}

static int (*volatile chosen)(int) = choose;

static void branches(uint8_t *result)
{
	int s = 0;

	section_begin();
	for (int i = 0; i < 8; i++)
		s += choose(i) + chosen(i);
	section_hook();
	s += choose(3);
	section_end();
	*(int *)result = s;
}

static int ascending(const void *a, const void *b)
{
	return *(const long *)a < *(const long *)b ? -1 : *(const long *)a > *(const long *)b;
}

static void sort(uint8_t *result)
{
	for (int i = 0; i < 100; i++)
		numbers[i] = (i * 7919) % 211;
	section_begin();
	qsort(numbers, 100, sizeof(long), ascending);
	section_end();
	memcpy(result, numbers, 800);
}

static void allocate(uint8_t *result)
{
	char *p[50];

	section_begin();
	for (int i = 0; i < 50; i++) {
		p[i] = malloc(50 + (size_t)i * 37);
		p[i][0] = (char)i;
	}
	for (int i = 0; i < 50; i += 2)
		free(p[i]);
	p[0] = realloc(p[1], 3000);
	p[2] = calloc(10, 100);
	for (int i = 3; i < 50; i += 2)
		free(p[i]);
	section_end();
	result[0] = (uint8_t)p[0][0];
}

static void strings(uint8_t *result)
{
	for (int i = 0; i < 4096; i++)
		text[i] = (char)('a' + i % 26);
	section_begin();
	for (size_t n = 0; n < 700; n += 13) {
		memcpy(result, text + n % 64, n);
		memmove(result + 3, result, n);
		memset(result + n, (int)n, n / 2);
		result[3000 + n % 64] = (uint8_t)strnlen(text + n, 5000 - n);
		result[3100 + n % 64] = (uint8_t)memcmp(text, text + 26, n);
	}
	memcpy(result + 3200, strchr(text, 'q'), 8);
	memcpy(result + 3208, strstr(text, "xyzabc"), 8);
	result[3220] = (uint8_t)strcmp(text + 4090, "nothing");
	section_end();
}

static void print(uint8_t *result)
{
	section_begin();
	snprintf((char *)result, 500, "%d %s %.3f %lx %g %5c|%-8d|%*d", 42, "hello", 3.25, 0x1234abcdl, 1e-9, 'x', 7, 6, 5);
	snprintf((char *)result + 500, 500, "%ls", L"wide");
	sscanf("17 2.5 word", "%d %lf %s", (int *)(result + 1000), (double *)(result + 1008), (char *)result + 1016);
	section_end();
}

static void expressions(uint8_t *result)
{
	regex_t r;
	regmatch_t m[3];

	section_begin();
	if (!regcomp(&r, "([a-z]+)([0-9]{2,3})", REG_EXTENDED)) {
		regexec(&r, "--abc4711--", 3, m, 0);
		memcpy(result, m, sizeof(m));
		regfree(&r);
	}
	section_end();
}

static void jumps(uint8_t *result)
{
	jmp_buf buffer;
	volatile int turns = 0;

	section_begin();
	if (setjmp(buffer) < 3) {
		turns = turns + 1;
		longjmp(buffer, turns);
	}
	section_end();
	result[0] = (uint8_t)turns;
}

static void calls(uint8_t *result)
{
	section_begin();
	*(int *)result = getppid() > 0;
	result[8] = (uint8_t)write(-1, "x", 1);
	section_end();
}

static void clocks(uint8_t *result)
{
	struct timespec t;

	section_begin();
	result[0] = (uint8_t)clock_gettime(CLOCK_REALTIME_COARSE, &t);
	section_end();
}

const struct host_case host_c_cases[] = {
	{ "sum", sum },         { "branches", branches }, { "sort", sort },   { "allocate", allocate },
	{ "strings", strings }, { "print", print },       { "regex", expressions }, { "jumps", jumps },
	{ "calls", calls },     { "clocks", clocks },     { 0, 0 },
};
