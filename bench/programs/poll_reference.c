/*
 * poll_reference: a thread looks at a reference count under the lock, over and over, until nobody
 * refers to the buffer any more: Berkeley DB (PerfPlay, BUG 1).
 *
 * threads=4 turns=3000 use=20000 gap=20000   links of work with the reference, and without
 * wait=poll | condition
 */
#include "program.h"

static pthread_mutex_t reference_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static uint64_t references, used, turns, use, gap;
static int is_condition;

static NOINLINE void reference_take(void)
{
	if (is_condition) {
		pthread_mutex_lock(&reference_lock);
		while (references)
			pthread_cond_wait(&released, &reference_lock);
		references++;
		pthread_mutex_unlock(&reference_lock);
		return;
	}
	for (int is_taken = 0; !is_taken;) {
		pthread_mutex_lock(&reference_lock);
		is_taken = !references;
		references += is_taken;
		pthread_mutex_unlock(&reference_lock);
	}
}

static NOINLINE void reference_release(void)
{
	pthread_mutex_lock(&reference_lock);
	references--;
	if (is_condition)
		pthread_cond_signal(&released);
	pthread_mutex_unlock(&reference_lock);
}

static void *closer_main(void *arg)
{
	uint64_t x = (uintptr_t)arg;

	for (uint64_t i = 0; i < turns; i++) {
		reference_take();
		used++;
		x = work(x, use);
		reference_release();
		x = work(x, gap);
	}
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t threads;
	struct group closers;

	(void)argc;
	options = argv;
	threads = number("threads", 4);
	turns = number("turns", 3000);
	use = number("use", 20000);
	gap = number("gap", 20000);
	is_condition = is_option("wait", "condition");
	start(&closers, threads, closer_main, "closer");
	join(&closers);
	check(used == threads * turns, "uses");
	return 0;
}
