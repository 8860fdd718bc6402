/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* longjmp out of a locked section: the lock is left locked once, and let go by the code jumped to. */
#include "rob.h"

#include <setjmp.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread jmp_buf out;

static FX_NOINLINE void gives_up(int depth)
{
	volatile char frame[64];

	frame[0] = (char)depth;
	if (depth) {
		gives_up(depth - 1);
	} else {
		if (pthread_mutex_lock(&lock))
			return;
		longjmp(out, 1);
	}
	(void)frame;
}

static void *jumps(void *arg)
{
	for (volatile int i = 0; i < 1009; i++) {
		if (!setjmp(out))
			gives_up(i % 32);
		pthread_mutex_unlock(&lock);
	}
	counted_section(101);
	return arg;
}

int main(void)
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		t[i] = start(jumps, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("free again: %d\n", pthread_mutex_trylock(&lock) == 0);
	return 0;
}
