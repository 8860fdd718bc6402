/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Small programs that the live tests of the eBPF source record: workload NAME [NUMBER]. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long number;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg))
		abort();
	return thread;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* Two threads on one processor hand a byte to and fro. */
struct pair {
	int cpu;
	int there[2], back[2];
};

static void *echo(void *arg)
{
	struct pair *pair = arg;
	char c;

	pin(pair->cpu);
	while (read(pair->there[0], &c, 1) == 1 && c)
		if (write(pair->back[1], &c, 1) != 1)
			abort();
	return NULL;
}

static void *serve(void *arg)
{
	struct pair *pair = arg;
	pthread_t other;
	char c = 1;

	if (pipe(pair->there) || pipe(pair->back))
		abort();
	pin(pair->cpu);
	other = start(echo, pair);
	for (long i = 0; i < number; i++)
		if (write(pair->there[1], &c, 1) != 1 || read(pair->back[0], &c, 1) != 1)
			abort();
	c = 0;
	if (write(pair->there[1], &c, 1) != 1)
		abort();
	pthread_join(other, NULL);
	return NULL;
}

static void ping_pong(void)
{
	struct pair pair = {.cpu = 0};

	serve(&pair);
}

/* On two processors at once; prints how long it took. */
static void storm(void)
{
	struct pair pairs[2] = {{.cpu = 0}, {.cpu = 1}};
	double began = seconds();
	pthread_t first = start(serve, &pairs[0]), second = start(serve, &pairs[1]);

	pthread_join(first, NULL);
	pthread_join(second, NULL);
	printf("%f\n", seconds() - began);
}

static void *in_cond(void *arg)
{
	pthread_mutex_lock(&lock);
	for (;;)
		pthread_cond_wait(&cond, &lock);
	return arg;
}

static void *in_poll(void *arg)
{
	poll(NULL, 0, -1);
	return arg;
}

static void *in_sleep(void *arg)
{
	sleep(1000);
	return arg;
}

static void *busy(void *arg)
{
	for (volatile long i = 0;; i++)
		;
	return arg;
}

/* Until the input ends. */
static void blocked(void)
{
	char c;

	start(in_cond, NULL);
	start(in_poll, NULL);
	start(in_sleep, NULL);
	start(busy, NULL);
	usleep(50000);
	printf("ready\n");
	fflush(stdout);
	if (read(0, &c, 1) < 0)
		abort();
}

static void *nothing(void *arg)
{
	return arg;
}

static void threads(void)
{
	for (long i = 0; i < number; i++)
		pthread_join(start(nothing, NULL), NULL);
}

/* Makes threads and processes all the time until the input ends. */
static void *churn_one(void *arg)
{
	for (long i = 0;; i++) {
		pthread_t thread = start(nothing, NULL);

		if (i % 8 == 0) {
			pid_t child = fork();

			if (child == 0) {
				pthread_join(start(nothing, NULL), NULL);
				_exit(0);
			}
			waitpid(child, NULL, 0);
		}
		pthread_join(thread, NULL);
	}
	return arg;
}

static void churn(void)
{
	char c;

	for (int i = 0; i < 4; i++)
		start(churn_one, NULL);
	printf("ready\n");
	fflush(stdout);
	if (read(0, &c, 1) < 0)
		abort();
	_exit(0);
}

static void *exec_true(void *arg)
{
	execl("/bin/true", "true", NULL);
	return arg;
}

/* Another thread than the main one becomes another program. */
static void exec_thread(void)
{
	pthread_join(start(exec_true, NULL), NULL);
}

/* Waits for one descriptor, whose number it is told, and for two. */
static void polls(void)
{
	int ends[2];
	struct pollfd both[2] = {{.events = POLLIN}, {.events = POLLIN}};

	if (pipe(ends) || dup2(ends[0], number) < 0)
		abort();
	both[0].fd = both[1].fd = number;
	for (int i = 0; i < 5; i++)
		if (poll(both, 1, 2) || poll(both, 2, 2))
			abort();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{"ping-pong", ping_pong}, {"storm", storm}, {"blocked", blocked},
		{"threads", threads},	  {"churn", churn}, {"exec-thread", exec_thread},
		{"polls", polls},
	};

	number = argc > 2 ? atol(argv[2]) : 0;
	for (size_t i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strcmp(argv[1], all[i].name)) {
			all[i].run();
			return 0;
		}
	}
	return 2;
}
