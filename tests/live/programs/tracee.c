/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The program of the tests of traces. Modes:
 *
 *   fast MS     two threads take a lock of their own as fast as they can
 *   steady MS   two threads take one lock every few microseconds
 *   killed      takes a lock 1,001 times, the last time without giving it back, and kills itself
 *   sleeps      takes a lock 100 times, notes its pid in the file "pid", and sleeps for a minute
 *   children    forks a child, which starts itself anew with "once"
 *   once        takes a lock 307 times
 *   signals MS  two threads take locks while a timer's signal handler takes another one
 *   threads N   N threads, all alive at once
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t value;
static uint64_t end_ns;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void take(pthread_mutex_t *lock, int times)
{
	for (int i = 0; i < times; i++) {
		pthread_mutex_lock(lock);
		value++;
		pthread_mutex_unlock(lock);
	}
}

static void *fast(void *unused)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	(void)unused;
	while (now_ns() < end_ns)
		take(&own, 1000);
	return NULL;
}

static void *steady(void *unused)
{
	(void)unused;
	while (now_ns() < end_ns) {
		take(&shared, 1);
		for (volatile int i = 0; i < 2000; i++)
			;
	}
	return NULL;
}

static void two_threads(void *(*run)(void *))
{
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, run, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

/* Not what a handler may do; but some do, with a lock that nothing else uses. */
static void on_timer(int unused)
{
	static pthread_mutex_t lock[64];
	static volatile unsigned turn;

	(void)unused;
	take(&lock[__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % 64], 1);
}

static pthread_barrier_t all;

static void *meets(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&all);
	take(&shared, 3);
	return NULL;
}

static void many(unsigned n)
{
	pthread_t *t = calloc(n, sizeof(*t));
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	pthread_barrier_init(&all, NULL, n);
	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&t[i], &small, meets, NULL)) {
			perror("pthread_create");
			_exit(1);
		}
	for (unsigned i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	free(t);
}

static void children(char *self)
{
	char *args[] = { self, "once", NULL };
	pid_t child;

	take(&shared, 101);
	child = fork();
	if (child == 0) {
		take(&shared, 203);
		execv(self, args);
		_exit(1);
	}
	waitpid(child, NULL, 0);
}

static void note_pid(void)
{
	FILE *f = fopen("pid", "w");

	fprintf(f, "%d\n", (int)getpid());
	fclose(f);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	struct itimerval every = { { 0, 200 }, { 0, 200 } };

	end_ns = now_ns() + n * 1000000ull;
	if (strcmp(mode, "fast") == 0) {
		two_threads(fast);
	} else if (strcmp(mode, "steady") == 0) {
		two_threads(steady);
	} else if (strcmp(mode, "killed") == 0) {
		take(&shared, 1000);
		pthread_mutex_lock(&shared);
		kill(getpid(), SIGKILL);
	} else if (strcmp(mode, "sleeps") == 0) {
		take(&shared, 100);
		note_pid();
		sleep(60);
	} else if (strcmp(mode, "children") == 0) {
		children(argv[0]);
	} else if (strcmp(mode, "once") == 0) {
		take(&shared, 307);
	} else if (strcmp(mode, "signals") == 0) {
		signal(SIGALRM, on_timer);
		setitimer(ITIMER_REAL, &every, NULL);
		two_threads(steady);
	} else if (strcmp(mode, "threads") == 0) {
		many(n);
	} else {
		return 1;
	}
	return 0;
}
