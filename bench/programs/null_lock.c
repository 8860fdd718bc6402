/*
 * null_lock: threads take a lock to see whether a flag is set, which it is once in 4096 turns.
 *
 * threads=4 turns=1000000 gap=50
 * test=inside | first   first: the flag is tested before the lock is taken
 */
#include "program.h"

static pthread_mutex_t flag_lock = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(LINE) uint64_t flag_set;
static _Alignas(LINE) uint64_t handled;
static uint64_t turns, gap;
static int is_tested_first;

static NOINLINE void flag_check(void)
{
	if (is_tested_first && !__atomic_load_n(&flag_set, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&flag_lock);
	if (flag_set) {
		__atomic_store_n(&flag_set, 0, __ATOMIC_RELAXED);
		handled++;
	}
	pthread_mutex_unlock(&flag_lock);
}

static void *checker_main(void *arg)
{
	uint64_t x = (uintptr_t)arg;

	for (uint64_t i = 1; i <= turns; i++) {
		if (i % 4096 == 0)
			__atomic_store_n(&flag_set, 1, __ATOMIC_RELAXED);
		flag_check();
		x = work(x, gap);
	}
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group checkers;

	(void)argc;
	options = argv;
	turns = number("turns", 1000000);
	gap = number("gap", 50);
	is_tested_first = is_option("test", "first");
	start(&checkers, number("threads", 4), checker_main, "checker");
	join(&checkers);
	check(handled > 0 || turns < 4096, "no flag was seen");
	return 0;
}
