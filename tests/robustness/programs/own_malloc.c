/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program with an allocator of its own behind a pthread mutex. The loader and libc call it before any
 * constructor has run, so it locks before the agent exists; and an agent that allocates in a hook dies here
 * of recursion.
 */
#include "rob.h"

#include <stddef.h>

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(16) char heap[64 << 20];
static size_t heap_used;
static __thread int inside;

static void *take(size_t bytes)
{
	size_t *p;

	if (inside) {
		static const char why[] = "malloc called inside malloc's own lock operation\n";

		(void)!write(2, why, sizeof why - 1);
		abort();
	}
	inside = 1;
	pthread_mutex_lock(&heap_lock);
	bytes = (bytes + 31) & ~(size_t)15;
	p = heap_used + bytes <= sizeof heap ? (size_t *)(void *)(heap + heap_used) : NULL;
	heap_used += bytes;
	pthread_mutex_unlock(&heap_lock);
	inside = 0;
	if (p) {
		p[0] = bytes - 16;
		p += 2;
	} else {
		errno = ENOMEM;
	}
	return p;
}

void *malloc(size_t bytes)
{
	return take(bytes);
}

void free(void *p)
{
	(void)p;
}

void *calloc(size_t n, size_t bytes)
{
	return take(n * bytes); /* never used before, so zero */
}

void *realloc(void *old, size_t bytes)
{
	char *p = (char *)take(bytes);

	if (p && old) {
		size_t had = ((size_t *)old)[-2];

		memcpy(p, old, had < bytes ? had : bytes);
	}
	return p;
}

void *memalign(size_t alignment, size_t bytes)
{
	char *p = (char *)take(bytes + alignment);

	return p ? (void *)(((uintptr_t)p + alignment - 1) & ~(alignment - 1)) : NULL;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return memalign(alignment, bytes);
}

static void *allocates(void *arg)
{
	for (int i = 0; i < 1009; i++) {
		char *volatile p = (char *)malloc(100);

		p[0] = 1;
		free(p);
	}
	counted_section(101);
	return arg;
}

int main(void)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		t[i] = start(allocates, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	puts("done");
	return 0;
}
