/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads that are cancelled in a blocking call while they hold a lock: what lives on their stacks is destroyed. */
#include "rob.h"

#include <mutex>

static std::mutex lock;
static int fds[2];
static volatile int there, destroyed;

struct Local {
	~Local()
	{
		destroyed = destroyed + 1;
	}
};

static FX_NOINLINE void reads()
{
	Local local;
	char c;

	there = 1;
	MUST(read(fds[0], &c, 1) == 1);
}

static void *reads_in_section(void *arg)
{
	std::lock_guard<std::mutex> guard(lock);

	reads();
	return arg;
}

/* The thread is in read() when it is cancelled. */
static void it_blocks()
{
	usleep(2000);
}

/* It is anywhere between its last store and there. */
static void it_goes_there()
{
	static unsigned times;

	for (unsigned n = times++ % 97 * 40; n > 0; n--)
		__asm__ volatile("");
}

int main(int, char **argv)
{
	int blocked = is(argv, "blocked");
	int threads = blocked ? 20 : 500;
	void *result;

	if (!blocked && !is(argv, "at-once"))
		return no_such_way(argv);
	counted_section(101);
	MUST(!pipe(fds));
	for (int i = 0; i < threads; i++) {
		there = 0;
		pthread_t t = start(reads_in_section, nullptr);

		while (!there)
			;
		(blocked ? it_blocks : it_goes_there)();
		MUST(!pthread_cancel(t));
		MUST(!pthread_join(t, &result));
		MUST(result == PTHREAD_CANCELED);
		std::lock_guard<std::mutex> guard(lock);
	}
	printf("destroyed %d\n", (int)destroyed);
	return 0;
}
