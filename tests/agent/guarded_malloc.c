/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An allocator that aborts when it is called in the middle of a synchronization call of the same thread. The
 * program marks the calls; libc itself allocates in none of those used here. So whoever allocates then is the
 * agent.
 */
#include "../../fixtures/fx.h"

#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static __thread const char *in_call;

static _Alignas(16) char heap[64 << 20];
static size_t heap_used;

static void *take(size_t bytes)
{
	char *p;

	if (in_call) {
		static const char why[] = "malloc inside ";

		(void)!write(2, why, sizeof why - 1);
		(void)!write(2, in_call, strlen(in_call));
		(void)!write(2, "\n", 1);
		abort();
	}
	bytes = (bytes + 15) & ~(size_t)15;
	p = heap + __atomic_fetch_add(&heap_used, bytes + 16, __ATOMIC_RELAXED);
	if (p + bytes + 16 > heap + sizeof heap) {
		errno = ENOMEM;
		return NULL;
	}
	*(size_t *)(void *)p = bytes;
	return p + 16;
}

void *malloc(size_t bytes)
{
	return take(bytes);
}

void free(void *p)
{
	if (p)
		take(0);
}

void *calloc(size_t n, size_t bytes)
{
	return take(n * bytes);
}

void *realloc(void *old, size_t bytes)
{
	char *p = (char *)take(bytes);

	if (p && old) {
		size_t had = *(size_t *)(void *)((char *)old - 16);

		memcpy(p, old, had < bytes ? had : bytes);
	}
	return p;
}

#define CALL(expression)             \
	do {                         \
		in_call = #expression; \
		(void)(expression);  \
		in_call = NULL;      \
	} while (0)

#define WORKERS 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t sem;

/* More locks than the cache has slots, and deep stacks: tables grow, frames are learnt. */
static pthread_mutex_t many[4099];

static FX_NOINLINE void one_of_many(int i, int depth)
{
	if (depth)
		one_of_many(i, depth - 1);
	CALL(pthread_mutex_lock(&many[i]));
	CALL(pthread_mutex_unlock(&many[i]));
}

static void *worker_main(void *arg)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	fx_enter();
	for (int i = 0; i < 2003; i++) {
		struct timespec soon;

		CALL(pthread_mutex_lock(&mutex));
		fx_work(2000);
		CALL(pthread_mutex_unlock(&mutex));
		CALL(pthread_mutex_trylock(&own));
		CALL(pthread_mutex_unlock(&own));
		CALL(pthread_rwlock_wrlock(&rwlock));
		CALL(pthread_rwlock_unlock(&rwlock));
		CALL(pthread_rwlock_rdlock(&rwlock));
		CALL(pthread_rwlock_unlock(&rwlock));
		CALL(pthread_spin_lock(&spin));
		CALL(pthread_spin_unlock(&spin));
		CALL(sem_wait(&sem));
		CALL(sem_post(&sem));
		if (i % 64 == 0)
			CALL(pthread_barrier_wait(&barrier));
		if (i % 256 == 0) {
			clock_gettime(CLOCK_REALTIME, &soon);
			CALL(pthread_mutex_lock(&own));
			CALL(pthread_cond_timedwait(&cond, &own, &soon));
			CALL(pthread_mutex_unlock(&own));
		}
		CALL(pthread_cond_broadcast(&cond));
		one_of_many((i * 2 + (int)(intptr_t)arg) % 4099, i % 40);
	}
	fx_leave();
	return NULL;
}

int main(void)
{
	pthread_spin_init(&spin, 0);
	pthread_barrier_init(&barrier, NULL, WORKERS);
	sem_init(&sem, 0, 2);
	for (int i = 0; i < 4099; i++)
		CALL(pthread_mutex_init(&many[i], NULL));
	fx_spawn(WORKERS, worker_main, "worker");
	fx_run();
	for (int i = 0; i < 4099; i++)
		CALL(pthread_mutex_destroy(&many[i]));
	puts("EXIT-SUCCESS");
	return 0;
}
