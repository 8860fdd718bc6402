/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A little of everything, for runs under sanitizers, limits and without files. */
#include "rob.h"

#include <semaphore.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t sem;
static uint64_t shared_total, done;

static void init(void)
{
	counted_section(5);
}

static void *works(void *arg)
{
	char *volatile p;

	pthread_once(&once, init);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 1009; i++) {
		pthread_mutex_lock(&lock);
		shared_total++;
		pthread_mutex_unlock(&lock);
		pthread_rwlock_rdlock(&rwlock);
		pthread_rwlock_unlock(&rwlock);
		sem_wait(&sem);
		sem_post(&sem);
		p = (char *)malloc(64);
		p[0] = (char)i;
		free(p);
	}
	pthread_mutex_lock(&lock);
	done++;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&lock);
	counted_section(99);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t[4];

	(void)argc;
	sem_init(&sem, 0, 2);
	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 4; i++)
		t[i] = start(works, NULL);
	pthread_mutex_lock(&lock);
	while (done < 4)
		pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&barrier);
	printf("total %llu\n", (unsigned long long)shared_total);
	if (is(argv, "stderr"))
		fputs("a line on stderr\n", stderr);
	if (is(argv, "status"))
		return 42;
	return 0;
}
