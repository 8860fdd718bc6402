// A program whose functions are probed in part: from one caller, while a thread "holds" something,
// with bytes and files. Says "ready" and where its counts of held locks are, works when a line
// comes, says "done", and ends with its standard input.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define probed __attribute__((noinline, noclone, used))

// As the agent's.
static __thread volatile struct {
	uint32_t epoch, reserved;
	uint8_t count[8];
} holding __attribute__((aligned(8)));

static volatile long sink;

probed long leaf(long x)
{
	sink = x;
	return x * 3 + 1;
}

probed long first_caller(long x)
{
	return leaf(x) + leaf(x + 1) + sink;
}

probed long second_caller(long x)
{
	return leaf(x) + sink;
}

probed void *asks(long n, long size, long third)
{
	sink = n + size + third;
	return 0;
}

probed long reads(int fd, char *to, long n)
{
	struct timespec nap = { .tv_nsec = 2000000 };
	nanosleep(&nap, 0);
	long got = read(fd, to, n);
	sink = got;
	return got;
}

probed long writes(int fd, const char *from, long n)
{
	long put = write(fd, from, n);
	sink = put;
	return put;
}

// More descriptors than a thread has room for.
static int many(void)
{
	char line[64], byte;
	int zero = open("/dev/zero", O_RDONLY);
	printf("ready\n0\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 0; i < 600; i++)
		if (writes(dup(zero), &byte, 1) > 0)
			return 1;
	printf("done\n");
	fflush(stdout);
	fgets(line, sizeof(line), stdin);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "many"))
		return many();
	char line[64], bytes[1000] = { 0 };
	uint64_t self;
	__asm__("mov %%fs:0, %0" : "=r"(self));
	printf("ready\n");
	printf("%ld\n", (long)((uint64_t)&holding - self));
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 0; i < 100; i++) {
		first_caller(i);
		second_caller(i);
		asks(10, 7, 1000);
		asks(0, 7, 1000);
		holding.epoch = 5;
		holding.count[2] = i % 4 == 0;
		leaf(i);
		holding.count[2] = 0;
	}
	holding.epoch = 6;
	holding.count[2] = 1;
	leaf(0);
	int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
	for (int i = 0; i < 10; i++) {
		reads(zero, bytes, 100);
		writes(null, bytes, 1000);
	}
	reads(-1, bytes, 100);
	printf("%d %d\n", zero, null);
	fflush(stdout);
	fgets(line, sizeof(line), stdin);
	return 0;
}
