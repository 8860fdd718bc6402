// With "compute": threads of a pool spend nine tenths of their time in `slow`, called by `handle`.
// With "lock": they hold `cache_lock` in `put` for most of the time, and wait for it the rest.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned sink;

static unsigned compute(unsigned x, int n)
{
	for (int i = 0; i < n; i++)
		x = x * 1103515245u + 12345u;
	return x;
}

__attribute__((noinline)) unsigned slow(unsigned x)
{
	return compute(x, 90000) + 1;
}

__attribute__((noinline)) unsigned quick(unsigned x)
{
	return compute(x, 10000) + 2;
}

__attribute__((noinline)) unsigned handle(unsigned x)
{
	x = slow(x);
	return quick(x) + 1;
}

__attribute__((noinline)) unsigned put(unsigned x)
{
	pthread_mutex_lock(&cache_lock);
	sink = compute(x, 300000);
	pthread_mutex_unlock(&cache_lock);
	return x + 1;
}

static void *serve(void *job)
{
	unsigned (*work)(unsigned) = strcmp(job, "lock") ? handle : put;
	for (unsigned x = 1;; sink = x)
		x = work(x);
	return NULL;
}

int main(int argc, char **argv)
{
	for (int i = 0; i < 3 && argc > 1; i++) {
		char name[16];
		pthread_t thread;
		pthread_create(&thread, NULL, serve, argv[1]);
		snprintf(name, sizeof name, "worker-%d", i);
		pthread_setname_np(thread, name);
	}
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}
