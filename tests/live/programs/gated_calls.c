// Each iteration calls `work` once while it holds `cache_lock`, twice while it holds `other_lock`,
// once while it holds `table` (for reading, once of two times), and three times without any lock.
// It writes 100 bytes to the log that its argument names, reads 512 bytes of /dev/zero, and asks
// for 350 bytes of memory. One thread waits for a pipe nearly all the time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define kept __attribute__((noinline, noclone, used))

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static int log_file, zero, ends[2];
static volatile unsigned sink;

kept unsigned work(unsigned x)
{
	for (int i = 0; i < 3000; i++)
		x = x * 1103515245u + 12345u;
	return x;
}

kept unsigned put(unsigned x)
{
	pthread_mutex_lock(&cache_lock);
	x = work(x);
	pthread_mutex_unlock(&cache_lock);
	return x + 1;
}

kept unsigned get(unsigned x)
{
	pthread_mutex_lock(&other_lock);
	x = work(x);
	x += work(x);
	pthread_mutex_unlock(&other_lock);
	return x + 1;
}

kept unsigned look(unsigned x)
{
	pthread_rwlock_rdlock(&table);
	pthread_rwlock_rdlock(&table);
	pthread_rwlock_unlock(&table);
	x = work(x);
	pthread_rwlock_unlock(&table);
	return x + 1;
}

kept unsigned compute(unsigned x)
{
	x = work(x);
	x += work(x);
	x += work(x); // the third
	return x + 1;
}

kept unsigned iterate(unsigned x)
{
	char bytes[512] = { 0 };
	if (write(log_file, bytes, 100) != 100 || read(zero, bytes, 512) != 512)
		abort();
	void *volatile none = NULL;
	void *volatile a = malloc(100), *volatile b = calloc(10, 20), *volatile c = realloc(none, 50);
	free(a);
	free(b);
	free(c);
	return put(x) + get(x) + look(x) + compute(x);
}

static void *serve(void *unused)
{
	for (unsigned x = 1;; usleep(500))
		sink = x = iterate(x);
	return unused;
}

static void *receive(void *unused)
{
	char byte;
	while (read(ends[0], &byte, 1) == 1)
		sink += byte;
	return unused;
}

static void begin(void *(*routine)(void *), const char *name)
{
	pthread_t thread;
	pthread_create(&thread, NULL, routine, NULL);
	pthread_setname_np(thread, name);
}

int main(int argc, char **argv)
{
	log_file = open(argc > 1 ? argv[1] : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	zero = open("/dev/zero", O_RDONLY);
	if (log_file < 0 || zero < 0 || pipe(ends) != 0)
		return 1;
	begin(serve, "pool-1");
	begin(serve, "pool-2");
	begin(receive, "receiver");
	printf("ready\n");
	fflush(stdout);
	for (;; usleep(50000))
		if (write(ends[1], "x", 1) != 1)
			return 1;
}
