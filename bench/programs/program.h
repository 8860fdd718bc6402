/* Options as name=value words, and named threads, for the programs of `bench/whatif`. C and C++. */
#ifndef PROGRAM_H
#define PROGRAM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 64
#define LINE 128 /* bytes: two cache lines, which are fetched together */
#define NOINLINE __attribute__((noinline, noclone))

static char **options;

/* The value of an option, or NULL. */
static inline const char *option(const char *name)
{
	size_t length = strlen(name);

	for (char **o = options + 1; *o; o++)
		if (!strncmp(*o, name, length) && (*o)[length] == '=')
			return *o + length + 1;
	return NULL;
}

static inline uint64_t number(const char *name, uint64_t otherwise)
{
	const char *value = option(name);
	char *end = NULL;
	uint64_t n = value ? strtoull(value, &end, 10) : otherwise;

	if (value && (end == value || *end)) {
		fprintf(stderr, "%s=%s: not a number\n", name, value);
		exit(2);
	}
	return n;
}

static inline int is_option(const char *name, const char *value)
{
	const char *given = option(name);

	return given && !strcmp(given, value);
}

/* `links` dependent multiplications, about a nanosecond each: work in registers. */
static inline __attribute__((always_inline)) uint64_t work_inline(uint64_t x, uint64_t links)
{
	while (links--) {
		x = x * 0x9e3779b97f4a7c15u + 1;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

/* The same as one function for all callers. */
static NOINLINE __attribute__((unused)) uint64_t work(uint64_t x, uint64_t links)
{
	return work_inline(x, links);
}

static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static volatile uint64_t sink;

struct group {
	pthread_t id[MAX_THREADS];
	uint64_t n;
};

/* Threads name-0, name-1, ...; the argument is that number. */
static inline void start(struct group *g, uint64_t n, void *(*routine)(void *), const char *name)
{
	char own[24];

	if (n < 1 || n > MAX_THREADS) {
		fprintf(stderr, "%s: 1 to %d threads\n", name, MAX_THREADS);
		exit(2);
	}
	for (g->n = 0; g->n < n; g->n++) {
		if (pthread_create(&g->id[g->n], NULL, routine, (void *)(uintptr_t)g->n)) {
			perror("pthread_create");
			exit(1);
		}
		snprintf(own, sizeof own, "%.12s-%u", name, (unsigned)(g->n % MAX_THREADS));
		pthread_setname_np(g->id[g->n], own);
	}
}

static inline void join(struct group *g)
{
	for (uint64_t i = 0; i < g->n; i++)
		pthread_join(g->id[i], NULL);
}

/* The result is right: a fix that breaks the program is none. */
static inline void check(int is_right, const char *what)
{
	if (is_right)
		return;
	fprintf(stderr, "wrong result: %s\n", what);
	exit(1);
}

#endif
