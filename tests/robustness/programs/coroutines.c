/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Coroutines that hold a lock while they switch, on stacks of their own: a hold begins on one stack and
 * ends after others ran on the same thread, and call stacks end in the middle of nowhere.
 */
#include "rob.h"

#include <ucontext.h>

#define COROUTINES 7
#define STACK 65536

static ucontext_t scheduler, coroutine[COROUTINES];
static pthread_mutex_t lock[COROUTINES];
static int current, alive = COROUTINES;

static void body(void)
{
	int me = current;

	for (int i = 0; i < 101; i++) {
		pthread_mutex_lock(&lock[me]);
		swapcontext(&coroutine[me], &scheduler);
		pthread_mutex_unlock(&lock[me]);
		counted_section(1);
	}
	alive--;
}

int main(void)
{
	for (int i = 0; i < COROUTINES; i++) {
		pthread_mutex_init(&lock[i], NULL);
		getcontext(&coroutine[i]);
		coroutine[i].uc_stack.ss_sp = malloc(STACK);
		coroutine[i].uc_stack.ss_size = STACK;
		coroutine[i].uc_link = &scheduler;
		makecontext(&coroutine[i], body, 0);
	}
	/* All start, then they take turns, 101 switches each, and a last one in which they end. */
	for (int turn = 0; turn <= 101; turn++)
		for (current = 0; current < COROUTINES; current++)
			swapcontext(&scheduler, &coroutine[current]);
	printf("alive: %d\n", alive);
	return 0;
}
