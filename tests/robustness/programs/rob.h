/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the nasty programs share. Whatever a program does, it also calls counted_section() an odd
 * number of times; the table (cases.toml) says how often, and the profile must know, to the last one.
 */
#ifndef ROB_H
#define ROB_H

#include "../../../fixtures/fx.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t counted_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t counted;

static FX_NOINLINE void counted_section(int n)
{
	for (int i = 0; i < n; i++) {
		MUST(!pthread_mutex_lock(&counted_lock));
		counted = counted + 1;
		MUST(!pthread_mutex_unlock(&counted_lock));
	}
}

static FX_UNUSED void *counted_main(void *n)
{
	counted_section((int)(intptr_t)n);
	return NULL;
}

static FX_UNUSED pthread_t start(void *(*routine)(void *), void *arg)
{
	pthread_t t;

	MUST(!pthread_create(&t, NULL, routine, arg));
	return t;
}

/* Which of the program's ways was asked for. */
static FX_UNUSED int is(char **argv, const char *way)
{
	return argv[1] && !strcmp(argv[1], way);
}

static FX_UNUSED int no_such_way(char **argv)
{
	fprintf(stderr, "%s: no such way: %s\n", argv[0], argv[1] ? argv[1] : "(none)");
	return 99;
}

#endif
