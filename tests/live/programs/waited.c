/*
 * Threads that share a mutex in every way that POSIX allows: lock, try, wait for a condition, fork
 * while others hold it; `recursive` = a mutex that other ways to wait must leave alone; `handed` =
 * released by another thread than the one that took it, which works though POSIX forbids it.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static sem_t taken;
static long sum, turns, end_ms;

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Not atomic on purpose: a section that does not exclude the others loses counts. */
static void section(long *mine)
{
	long before = sum;

	for (volatile int i = 0; i < 300; i++)
		;
	sum = before + 1;
	++*mine;
}

static void *work(void *mine)
{
	for (int round = 1; now_ms() < end_ms; round++) {
		for (int i = 0; i < 200; i++) {
			if (i % 8 != 0 || pthread_mutex_trylock(&shared) != 0)
				pthread_mutex_lock(&shared);
			section(mine);
			if (i == 0) {
				turns++;
				pthread_cond_broadcast(&turned);
			}
			pthread_mutex_unlock(&shared);
		}
		if (round % 64)
			continue;
		pthread_mutex_lock(&shared);
		for (long seen = turns; turns == seen && now_ms() < end_ms;) {
			struct timespec soon;

			clock_gettime(CLOCK_REALTIME, &soon);
			soon.tv_nsec += 2000000;
			soon.tv_sec += soon.tv_nsec / 1000000000;
			soon.tv_nsec %= 1000000000;
			pthread_cond_timedwait(&turned, &shared, &soon);
		}
		section(mine);
		pthread_mutex_unlock(&shared);
	}
	return NULL;
}

static void *take(void *mine)
{
	while (now_ms() < end_ms) {
		pthread_mutex_lock(&shared);
		section(mine);
		sem_post(&taken);
	}
	return NULL;
}

static void *give_back(void *mine)
{
	(void)mine;
	while (now_ms() < end_ms)
		if (sem_trywait(&taken) == 0)
			pthread_mutex_unlock(&shared);
	/* For takers that come to their end. */
	while (now_ms() < end_ms + 300)
		if (sem_trywait(&taken) == 0)
			pthread_mutex_unlock(&shared);
	return NULL;
}

static void *fork_now_and_then(void *failed)
{
	for (; now_ms() < end_ms; usleep(50000)) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

			pthread_mutex_lock(&own);
			pthread_mutex_unlock(&own);
			_exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
			*(long *)failed += 1;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain";
	void *(*start[THREADS + 1])(void *) = { work, work, work, fork_now_and_then };
	pthread_t thread[THREADS + 1];
	long count[THREADS + 1] = { 0 };

	if (strcmp(mode, "handed") == 0) {
		start[0] = start[1] = take;
		start[2] = give_back;
	}
	if (strcmp(mode, "recursive") == 0) {
		pthread_mutexattr_t attr;

		pthread_mutexattr_init(&attr);
		pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
		pthread_mutex_init(&shared, &attr);
	}
	sem_init(&taken, 0, 0);
	end_ms = now_ms() + 3000;
	for (int i = 0; i <= THREADS; i++)
		pthread_create(&thread[i], NULL, start[i], &count[i]);
	for (int i = 0; i <= THREADS; i++)
		pthread_join(thread[i], NULL);
	puts(sum == count[0] + count[1] + count[2] && count[3] == 0 ? "excluded" : "lost");
	return 5;
}
