/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counts system calls that end with EINTR, though no signal is ever sent to it, while one thread
 * computes and others wait in calls that no SA_RESTART begins again. Sets all signals to their
 * default first, as a daemon does. Ends with status 3.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t interrupted;
static volatile int is_over;

__attribute__((noinline)) static uint64_t compute(uint64_t x)
{
	for (int i = 0; i < 20000; i++) {
		x = x * 0x9e3779b97f4a7c15u + 1;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

static void *computer(void *sum)
{
	uint64_t x = 1;

	while (!is_over) {
		x = compute(x);
		pthread_mutex_lock(&lock);
		*(uint64_t *)sum = x;
		pthread_mutex_unlock(&lock);
	}
	return sum;
}

static void *waiter(void *arg)
{
	struct timespec millisecond = { 0, 1000000 };

	while (!is_over) {
		if (poll(NULL, 0, 1) < 0 && errno == EINTR)
			__atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
		if (nanosleep(&millisecond, NULL) < 0 && errno == EINTR)
			__atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < 20; i++)
			compute(1);
	}
	return arg;
}

int main(void)
{
	struct timespec four_seconds = { 4, 0 };
	pthread_t computers[2], waiters[2];
	uint64_t sums[2] = { 0, 0 };

	for (int sig = 1; sig < 65; sig++)
		signal(sig, SIG_DFL);
	for (int i = 0; i < 2; i++) {
		pthread_create(&computers[i], NULL, computer, &sums[i]);
		pthread_create(&waiters[i], NULL, waiter, NULL);
	}
	nanosleep(&four_seconds, NULL);
	is_over = 1;
	for (int i = 0; i < 2; i++) {
		pthread_join(computers[i], NULL);
		pthread_join(waiters[i], NULL);
	}
	printf("interrupted %lu\nsum %s\n", (unsigned long)interrupted, sums[0] && sums[1] ? "ok" : "wrong");
	return 3;
}
