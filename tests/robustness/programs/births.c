/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads that come to nothing, and threads that are interrupted before they have begun. */
#include "rob.h"

#include <semaphore.h>

static sem_t posted;
static volatile int stop;

static void posts(int sig)
{
	(void)sig;
	sem_post(&posted);
}

static void *interrupts(void *arg)
{
	while (!stop)
		kill(getpid(), SIGUSR1);
	return arg;
}

static void *does_nothing(void *arg)
{
	return arg;
}

/* More failures than there is room for thread records. */
static void fail(void)
{
	pthread_attr_t a;
	pthread_t t;
	int failed = 0;

	pthread_attr_init(&a);
	MUST(!pthread_attr_setstacksize(&a, 1ul << 46));
	for (int i = 0; i < 100000; i++)
		failed += pthread_create(&t, &a, does_nothing, NULL) != 0;
	printf("%d not made\n", failed);
}

/* Only the new threads take the signal: often before their first instruction. */
static void interrupted(void)
{
	struct sigaction sa = { 0 };
	pthread_t interrupter;
	sigset_t usr1;

	sem_init(&posted, 0, 0);
	sa.sa_handler = posts;
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	interrupter = start(interrupts, NULL);
	for (int i = 0; i < 1000; i++) {
		pthread_t t;

		pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
		t = start(does_nothing, NULL);
		pthread_sigmask(SIG_BLOCK, &usr1, NULL);
		pthread_join(t, NULL);
	}
	stop = 1;
	pthread_join(interrupter, NULL);
}

int main(int argc, char **argv)
{
	(void)argc;
	if (is(argv, "fail"))
		fail();
	else if (is(argv, "interrupted"))
		interrupted();
	else
		return no_such_way(argv);
	pthread_join(start(counted_main, (void *)101), NULL);
	return 0;
}
