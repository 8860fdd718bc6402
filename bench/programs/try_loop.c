/*
 * try_loop: threads try to lock until they succeed, and keep a CPU busy meanwhile.
 *
 * threads=4 turns=20000 section=5000 gap=5000
 * lock=try | block
 */
#include "program.h"

static pthread_mutex_t try_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t turns, section, gap, total;
static int is_blocking;

static NOINLINE void try_update(void)
{
	if (is_blocking)
		pthread_mutex_lock(&try_lock);
	else
		while (pthread_mutex_trylock(&try_lock)) {
		}
	total++;
	sink = work(total, section);
	pthread_mutex_unlock(&try_lock);
}

static void *trier_main(void *arg)
{
	uint64_t x = (uintptr_t)arg;

	for (uint64_t i = 0; i < turns; i++) {
		try_update();
		x = work(x, gap);
	}
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group triers;
	uint64_t threads;

	(void)argc;
	options = argv;
	threads = number("threads", 4);
	turns = number("turns", 20000);
	section = number("section", 5000);
	gap = number("gap", 5000);
	is_blocking = is_option("lock", "block");
	start(&triers, threads, trier_main, "trier");
	join(&triers);
	check(total == threads * turns, "turns");
	return 0;
}
