/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* pthread_cancel of a thread that waits, or computes, with cleanup handlers that lock. */
#include "rob.h"

#include <semaphore.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static pthread_t sleeper;
static volatile int ready;

static void cleanup_unlock(void *arg)
{
	counted_section(7);
	pthread_mutex_unlock((pthread_mutex_t *)arg);
	puts("cleanup: unlocked");
}

static void cleanup_say(void *arg)
{
	counted_section(7);
	printf("cleanup: %s\n", (const char *)arg);
}

static void *in_cond_wait(void *arg)
{
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(cleanup_unlock, &lock);
	ready = 1;
	for (;;)
		pthread_cond_wait(&cond, &lock);
	pthread_cleanup_pop(1);
	return arg;
}

static void *in_sem_wait(void *arg)
{
	pthread_cleanup_push(cleanup_say, (void *)"sem");
	ready = 1;
	sem_wait(&sem);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_join(void *arg)
{
	pthread_cleanup_push(cleanup_say, (void *)"join");
	ready = 1;
	pthread_join(sleeper, NULL);
	pthread_cleanup_pop(0);
	return arg;
}

/* pthread_mutex_lock is no cancellation point: the thread gets the lock, and is cancelled after that. */
static void *in_mutex_lock(void *arg)
{
	ready = 1;
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(cleanup_unlock, &lock);
	puts("got the lock before the cancellation");
	pthread_testcancel();
	puts("never");
	pthread_cleanup_pop(0);
	return arg;
}

static void *asynchronous(void *arg)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(cleanup_say, (void *)"async");
	ready = 1;
	for (;;)
		fx_work(1000);
	pthread_cleanup_pop(0);
	return arg;
}

/* Locks all the time, and asks for the cancellation between two sections. */
static void *between_sections(void *arg)
{
	pthread_cleanup_push(cleanup_say, (void *)"between");
	for (;;) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		ready = 1;
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	return arg;
}

static void *sleeps(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(int argc, char **argv)
{
	void *(*routine)(void *) = is(argv, "cond")	? in_cond_wait
				   : is(argv, "sem")	? in_sem_wait
				   : is(argv, "join")	? in_join
				   : is(argv, "mutex")	? in_mutex_lock
				   : is(argv, "async")	? asynchronous
				   : is(argv, "between") ? between_sections
							 : NULL;

	(void)argc;
	if (!routine)
		return no_such_way(argv);
	sem_init(&sem, 0, 0);
	sleeper = start(sleeps, NULL);
	for (int i = 0; i < 7; i++) {
		pthread_t t;
		void *result;

		ready = 0;
		if (routine == in_mutex_lock)
			pthread_mutex_lock(&lock);
		t = start(routine, NULL);
		while (!ready)
			sched_yield();
		fx_sleep_us(3000);
		MUST(!pthread_cancel(t));
		if (routine == in_mutex_lock) {
			fx_sleep_us(3000);
			pthread_mutex_unlock(&lock);
		}
		MUST(!pthread_join(t, &result));
		printf("%d: %s\n", i, result == PTHREAD_CANCELED ? "canceled" : "not canceled");
		MUST(!pthread_mutex_trylock(&lock));
		pthread_mutex_unlock(&lock);
	}
	pthread_cancel(sleeper);
	pthread_join(sleeper, NULL);
	return 0;
}
