// Calls `inner` exactly INNER times for each call of `outer`, from threads of two groups, until it
// is told to end; with an argument, for so many milliseconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define INNER 100

static volatile unsigned sink;

__attribute__((noinline)) unsigned inner(unsigned x)
{
	for (int i = 0; i < 100; i++)
		x = x * 1103515245u + 12345u;
	return x;
}

__attribute__((noinline)) unsigned outer(unsigned x)
{
	for (int i = 0; i < INNER; i++)
		x = inner(x);
	return x;
}

static void *work(void *name)
{
	pthread_setname_np(pthread_self(), name);
	for (unsigned x = 1;; sink = x) {
		x = outer(x);
		usleep(500);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static char *names[] = {"pool-1", "pool-2", "lone"};
	for (int i = 0; i < 3; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, work, names[i]);
	}
	printf("ready\n");
	fflush(stdout);
	if (argc > 1)
		usleep(1000 * atoi(argv[1]));
	else
		pause();
	return 7;
}
