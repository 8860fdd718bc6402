/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Stacks that are large enough for the program, and leave two or three kilobytes for whoever it calls. */
#include "rob.h"

#include <limits.h>
#include <semaphore.h>
#include <sys/auxv.h>

static sem_t posted;
static pthread_mutex_t handler_lock = PTHREAD_MUTEX_INITIALIZER;

static FX_NOINLINE void uses(size_t bytes)
{
	volatile FX_UNUSED char room[bytes];

	for (size_t i = 0; i < bytes; i += 64)
		room[i] = 1;
	sem_post(&posted);
	MUST(!sem_trywait(&posted));
	MUST(sem_trywait(&posted));
	MUST(!pthread_mutex_trylock(&handler_lock));
	MUST(!pthread_mutex_unlock(&handler_lock));
}

static void handler(int sig)
{
	(void)sig;
	uses(2000);
}

static void *small_main(void *arg)
{
	uses(9000);
	counted_section(100);
	return arg;
}

static void on_signal_stack(void)
{
	size_t size = getauxval(AT_MINSIGSTKSZ) + 4600;
	unsigned char *below = malloc(4096 + size);
	struct sigaction sa = { 0 };
	stack_t stack = { .ss_sp = below + 4096, .ss_size = size };
	int written = 0;

	memset(below, 0xa5, 4096);
	MUST(!sigaltstack(&stack, NULL));
	sa.sa_handler = handler;
	sa.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	for (int i = 0; i < 4096; i++)
		written += below[i] != 0xa5;
	printf("below the signal stack: %s\n", written ? "overwritten" : "untouched");
}

static void in_small_thread(void)
{
	pthread_attr_t a;
	pthread_t t;

	pthread_attr_init(&a);
	MUST(!pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN));
	MUST(!pthread_create(&t, &a, small_main, NULL));
	pthread_join(t, NULL);
	puts("the thread has ended");
}

int main(int argc, char **argv)
{
	(void)argc;
	sem_init(&posted, 0, 0);
	counted_section(101);
	if (is(argv, "signal"))
		on_signal_stack();
	else if (is(argv, "thread"))
		in_small_thread();
	else
		return no_such_way(argv);
	return 0;
}
