/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An allocator that is linked into the program, with a lock that its holder must not ask for again.
 * All threads are inside it most of the time, until SIGINT; "sleeper": but for one. */
#include "rob.h"

#include <poll.h>
#include <sched.h>

#define THREADS 4
#define CELL 4096

static volatile sig_atomic_t asked;
static _Alignas(16) char heap[256][CELL];
static char taken[256];
static volatile int holder;
static __thread int inside;

static void enter(void)
{
	if (inside++) {
		static const char why[] = "malloc was called in a thread that is inside malloc\n";

		(void)!write(2, why, sizeof why - 1);
		_exit(7);
	}
	while (__atomic_exchange_n(&holder, 1, __ATOMIC_ACQUIRE))
		sched_yield();
	/* As if it searched for memory. */
	for (volatile int i = 0; i < 2000; i++)
		;
}

static void leave(void)
{
	__atomic_store_n(&holder, 0, __ATOMIC_RELEASE);
	inside--;
}

/* Not malloc(), of which compilers make a call of calloc() in calloc(). */
static FX_NOINLINE void *take(size_t bytes)
{
	void *p = NULL;

	enter();
	for (size_t i = 0, n = (bytes + CELL - 1) / CELL; !p && i + n <= 256; i++) {
		size_t k = 0;

		while (k < n && !taken[i + k])
			k++;
		if (k < n)
			continue;
		/* A cell of a larger piece is never free again. */
		for (k = 0; k < n; k++)
			taken[i + k] = 1;
		p = heap[i];
	}
	leave();
	if (!p)
		errno = ENOMEM;
	return p;
}

void *malloc(size_t bytes)
{
	return take(bytes);
}

void free(void *p)
{
	enter();
	if (p)
		taken[((char *)p - heap[0]) / CELL] = 0;
	leave();
}

void *calloc(size_t n, size_t bytes)
{
	void *p = take(n * bytes);

	if (p)
		memset(p, 0, n * bytes);
	return p;
}

void *realloc(void *old, size_t bytes)
{
	void *p = take(bytes);

	if (p && old) {
		size_t room = (size_t)(heap[0] + sizeof heap - (char *)old);

		memcpy(p, old, bytes < room ? bytes : room);
		free(old);
	}
	return p;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	(void)alignment; /* cells are aligned to 16 bytes: enough here */
	return malloc(bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
	return aligned_alloc(alignment, bytes);
}

static void asks(int sig)
{
	asked = sig;
}

static void *allocates(void *arg)
{
	while (!asked) {
		free(malloc(100));
		for (volatile int i = 0; i < 6000; i++)
			;
	}
	return arg;
}

static void *sleeps(void *arg)
{
	while (!asked)
		poll(NULL, 0, 50);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t[THREADS + 1];
	int n = 0;

	(void)argc;
	signal(SIGINT, asks);
	for (; n < THREADS; n++)
		t[n] = start(allocates, NULL);
	if (is(argv, "sleeper"))
		t[n++] = start(sleeps, NULL);
	puts("ready");
	fflush(stdout);
	allocates(NULL);
	while (n)
		MUST(!pthread_join(t[--n], NULL));
	puts("right");
	return 6;
}
