/*
 * loop: threads that take a lock, work inside of it and then outside, for ever the same.
 *
 * threads=4 turns=200000 section=200 gap=1000   links of work inside and outside
 * lock=mutex | none | adaptive | spin | sharded   sharded: one of `shards` locks, by the element
 * shards=8
 */
#include "program.h"

enum lock { MUTEX, NONE, SPIN, SHARDED };

static pthread_mutex_t loop_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t loop_spin;
static struct element {
	_Alignas(LINE) pthread_mutex_t lock;
	_Alignas(LINE) uint64_t value;
} element[MAX_THREADS];
static enum lock lock;
static uint64_t turns, section, gap, shards;

static inline void enter(struct element *e)
{
	switch (lock) {
	case MUTEX: pthread_mutex_lock(&loop_lock); break;
	case SPIN: pthread_spin_lock(&loop_spin); break;
	case SHARDED: pthread_mutex_lock(&e->lock); break;
	case NONE: break;
	}
}

static inline void leave(struct element *e)
{
	switch (lock) {
	case MUTEX: pthread_mutex_unlock(&loop_lock); break;
	case SPIN: pthread_spin_unlock(&loop_spin); break;
	case SHARDED: pthread_mutex_unlock(&e->lock); break;
	case NONE: break;
	}
}

static NOINLINE void critical_update(struct element *e)
{
	uint64_t value;

	enter(e);
	/* Atomic, because without a lock two threads may meet at an element. */
	value = work(__atomic_load_n(&e->value, __ATOMIC_RELAXED), section);
	__atomic_store_n(&e->value, value, __ATOMIC_RELAXED);
	leave(e);
}

static void *loop_main(void *arg)
{
	uint64_t random = 88172645463325252u + (uintptr_t)arg, x = random;

	for (uint64_t i = 0; i < turns; i++) {
		critical_update(&element[random_next(&random) % shards]);
		x = work(x, gap);
	}
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group workers;

	(void)argc;
	options = argv;
	turns = number("turns", 200000);
	section = number("section", 200);
	gap = number("gap", 1000);
	shards = number("shards", 8);
	check(shards >= 1 && shards <= MAX_THREADS, "shards");
	lock = is_option("lock", "none") ? NONE :
	       is_option("lock", "spin") ? SPIN :
	       is_option("lock", "sharded") ? SHARDED :
					      MUTEX;
	if (is_option("lock", "adaptive")) {
		pthread_mutexattr_t adaptive;

		pthread_mutexattr_init(&adaptive);
		pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
		pthread_mutex_init(&loop_lock, &adaptive);
	}
	pthread_spin_init(&loop_spin, PTHREAD_PROCESS_PRIVATE);
	for (unsigned i = 0; i < MAX_THREADS; i++)
		pthread_mutex_init(&element[i].lock, NULL);
	start(&workers, number("threads", 4), loop_main, "loop");
	join(&workers);
	return 0;
}
