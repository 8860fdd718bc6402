// Threads that block, each in its own way, three calls deep; no frame pointers. Prints a line when all are on their way.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;
static int empty[2];
static volatile int after;

#define KEEP __attribute__((noinline, noclone))

static KEEP void in_mutex(void) { pthread_mutex_lock(&held); after++; }
static KEEP void in_cond(void) { pthread_mutex_lock(&lock); pthread_cond_wait(&never, &lock); after++; }
static KEEP void in_sem(void) { sem_wait(&sem); after++; }
static KEEP void in_rwlock(void) { pthread_rwlock_rdlock(&written); after++; }
static KEEP void in_read(void) { char c; if (read(empty[0], &c, 1)) after++; }
static KEEP void in_poll(void) { struct pollfd fd = {.fd = empty[0], .events = POLLIN}; if (poll(&fd, 1, -1)) after++; }
static KEEP void in_nanosleep(void) { struct timespec t = {.tv_sec = 600}; nanosleep(&t, NULL); after++; }

struct way { const char *name; void (*block)(void); };
static const struct way ways[] = {
	{"mutex", in_mutex}, {"cond", in_cond}, {"sem", in_sem}, {"rwlock", in_rwlock},
	{"read", in_read}, {"poll", in_poll}, {"nanosleep", in_nanosleep},
};

static KEEP void middle(const struct way *way)
{
	char pad[100];

	__asm__ volatile("" : : "r"(pad) : "memory");
	way->block();
	after++;
}

static KEEP void *outer(void *arg)
{
	const struct way *way = arg;

	pthread_setname_np(pthread_self(), way->name);
	middle(way);
	after++;
	return NULL;
}

int main(void)
{
	pthread_t thread;

	pthread_mutex_lock(&held);
	pthread_rwlock_wrlock(&written);
	if (pipe(empty))
		return 1;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		pthread_create(&thread, NULL, outer, (void *)&ways[i]);
	puts("started");
	fflush(stdout);
	pthread_join(thread, NULL);
	return after;
}
