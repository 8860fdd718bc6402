/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * glibc has two condition variables: pthread_cond_*@GLIBC_2.2.5, a pointer to a heap object, for
 * programs linked before 2003, and @@GLIBC_2.3.2. An agent that forwards one to the other corrupts memory.
 */
#include "rob.h"

#ifdef OLD
#define VERSION "GLIBC_2.2.5"
#else
#define VERSION "GLIBC_2.3.2"
#endif
#define PIN(f) __asm__(".symver " #f "," #f "@" VERSION)
PIN(pthread_cond_init);
PIN(pthread_cond_destroy);
PIN(pthread_cond_wait);
PIN(pthread_cond_timedwait);
PIN(pthread_cond_signal);
PIN(pthread_cond_broadcast);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	pthread_cond_t cond;
	unsigned char guard[32];
} c;
static int turn;

static void *answers(void *arg)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 401; i++) {
		while (turn != 1)
			pthread_cond_wait(&c.cond, &lock);
		turn = 0;
		pthread_cond_signal(&c.cond);
	}
	pthread_mutex_unlock(&lock);
	counted_section(203);
	return arg;
}

int main(void)
{
	struct timespec t;
	pthread_t other;
	size_t used = 0;

	memset(&c, 0xa5, sizeof c);
	MUST(!pthread_cond_init(&c.cond, NULL));
	other = start(answers, NULL);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 401; i++) {
		turn = 1;
		pthread_cond_broadcast(&c.cond);
		while (turn != 0)
			pthread_cond_wait(&c.cond, &lock);
	}
	pthread_mutex_unlock(&lock);
	pthread_join(other, NULL);
	pthread_mutex_lock(&lock);
	clock_gettime(CLOCK_REALTIME, &t);
	printf("timed wait: %d\n", pthread_cond_timedwait(&c.cond, &lock, &t) == ETIMEDOUT);
	pthread_mutex_unlock(&lock);
	/* The old one is a pointer: the rest of the new, larger type must be untouched. */
	for (size_t i = 0; i < sizeof c; i++)
		used += ((unsigned char *)&c)[i] != 0xa5;
	printf("%s: %s\n", VERSION, used <= 8 ? "a pointer" : used <= sizeof c.cond ? "an object" : "overrun");
	MUST(!pthread_cond_destroy(&c.cond));
	return 0;
}
