// Two threads take turns at one mutex, which each holds while it sleeps, and a third one computes,
// until the program is told to end: then its status is 7.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned sink;

__attribute__((noinline)) unsigned use_cache(void)
{
	pthread_mutex_lock(&cache_lock);
	usleep(2000);
	unsigned uses = ++sink;
	pthread_mutex_unlock(&cache_lock);
	return uses;
}

__attribute__((noinline)) unsigned compute(unsigned x)
{
	for (int i = 0; i < 100000; i++)
		x = x * 1103515245u + 12345u;
	return x;
}

static void *user(void *name)
{
	pthread_setname_np(pthread_self(), name);
	for (;;)
		use_cache();
	return NULL;
}

static void *computer(void *name)
{
	pthread_setname_np(pthread_self(), name);
	for (unsigned x = 1;; sink = x) {
		x = compute(x);
		usleep(500);
	}
	return NULL;
}

static void end(int number)
{
	(void)number;
	_exit(7);
}

int main(void)
{
	pthread_t thread;

	signal(SIGTERM, end);
	pthread_create(&thread, NULL, user, "user-1");
	pthread_create(&thread, NULL, user, "user-2");
	pthread_create(&thread, NULL, computer, "computer");
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}
