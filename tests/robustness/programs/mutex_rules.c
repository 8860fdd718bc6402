/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What POSIX promises of each kind of mutex, printed as error numbers: they must not change. */
#include "rob.h"

static pthread_mutex_t m;

static void make(int type, int robust, int protocol)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, type);
	pthread_mutexattr_setrobust(&a, robust);
	pthread_mutexattr_setprotocol(&a, protocol);
	MUST(!pthread_mutex_init(&m, &a));
}

static void *locks_and_dies(void *arg)
{
	printf("owner locks: %d\n", pthread_mutex_lock(&m));
	return arg;
}

static void *unlocks(void *arg)
{
	printf("other unlocks: %d\n", pthread_mutex_unlock(&m));
	return arg;
}

static void *tries(void *arg)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	printf("other tries: %d\n", pthread_mutex_trylock(&m));
	printf("other waits until now: %d\n", pthread_mutex_timedlock(&m, &t));
	t.tv_nsec = 2000000000;
	printf("other waits until nonsense: %d\n", pthread_mutex_timedlock(&m, &t));
	return arg;
}

static void in_thread(void *(*routine)(void *))
{
	pthread_join(start(routine, NULL), NULL);
}

/* The ids of the owner and the counts in the mutex are not ours to change: glibc's asserts read them. */
static void state(const char *when)
{
	printf("%s: kind %d owned %d users %u count %u\n", when, m.__data.__kind, m.__data.__owner != 0,
	       m.__data.__nusers, m.__data.__count);
}

static void robust(int protocol)
{
	make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, protocol);
	in_thread(locks_and_dies);
	printf("lock after owner's death: %d\n", pthread_mutex_lock(&m) == EOWNERDEAD);
	printf("consistent: %d\n", pthread_mutex_consistent(&m));
	state("locked");
	printf("unlock: %d\n", pthread_mutex_unlock(&m));
	in_thread(locks_and_dies);
	printf("lock after owner's death: %d\n", pthread_mutex_lock(&m) == EOWNERDEAD);
	printf("unlock, not made consistent: %d\n", pthread_mutex_unlock(&m));
	printf("not recoverable: %d\n", pthread_mutex_lock(&m) == ENOTRECOVERABLE);
}

static void kind(int type, int protocol)
{
	make(type, PTHREAD_MUTEX_STALLED, protocol);
	printf("lock: %d\n", pthread_mutex_lock(&m));
	state("locked");
	in_thread(tries);
	printf("destroy, locked: %d\n", pthread_mutex_destroy(&m));
	printf("trylock again: %d\n", pthread_mutex_trylock(&m));
	if (type == PTHREAD_MUTEX_ERRORCHECK) {
		printf("lock again: %d\n", pthread_mutex_lock(&m));
		in_thread(unlocks);
	}
	if (type == PTHREAD_MUTEX_RECURSIVE) {
		state("locked twice");
		printf("unlock: %d\n", pthread_mutex_unlock(&m));
	}
	printf("unlock: %d\n", pthread_mutex_unlock(&m));
	if (type != PTHREAD_MUTEX_NORMAL && type != PTHREAD_MUTEX_ADAPTIVE_NP)
		printf("unlock, not locked: %d\n", pthread_mutex_unlock(&m));
	state("free");
	printf("destroy: %d\n", pthread_mutex_destroy(&m));
}

/* Only two clocks will do, whether the mutex is free or not. */
static void clocks(void)
{
	struct timespec t = { 1, 0 };

	make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
	printf("processor time: %d\n", pthread_mutex_clocklock(&m, CLOCK_PROCESS_CPUTIME_ID, &t));
	printf("free: %d\n", pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &t));
	printf("past: %d\n", pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &t));
	printf("processor time: %d\n", pthread_mutex_clocklock(&m, CLOCK_PROCESS_CPUTIME_ID, &t));
}

/* Calls that are refused, neither acquisitions nor waits. */
static FX_NOINLINE void refused(void)
{
	pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
	int deadlocks = 0;

	make(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
	pthread_mutex_trylock(&m);
	pthread_rwlock_trywrlock(&rw);
	for (int i = 0; i < 1009; i++) {
		deadlocks += pthread_mutex_lock(&m) == EDEADLK;
		deadlocks += pthread_rwlock_wrlock(&rw) == EDEADLK;
		deadlocks += pthread_rwlock_rdlock(&rw) == EDEADLK;
	}
	printf("deadlocks: %d\n", deadlocks);
}

/* The same for more mutexes than there are slots for counters. */
static FX_NOINLINE void refused_by_many(void)
{
	static pthread_mutex_t many[3001];

	for (int i = 0; i < 3001; i++) {
		make(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
		many[i] = m;
		MUST(!pthread_mutex_trylock(&many[i]));
	}
	for (int round = 0; round < 101; round++)
		for (int i = 0; i < 3001; i++)
			MUST(pthread_mutex_lock(&many[i]) == EDEADLK);
}

/* The word of a priority-protected mutex is never 0, also when it is free. */
static FX_NOINLINE void protected(void)
{
	struct sched_param fifo = { .sched_priority = 5 };
	pthread_mutexattr_t a;

	MUST(!sched_setscheduler(0, SCHED_FIFO, &fifo));
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_PROTECT);
	pthread_mutexattr_setprioceiling(&a, 10);
	MUST(!pthread_mutex_init(&m, &a));
	for (int i = 0; i < 1009; i++) {
		MUST(!pthread_mutex_lock(&m));
		MUST(!pthread_mutex_unlock(&m));
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	counted_section(203);
	if (is(argv, "robust")) {
		robust(PTHREAD_PRIO_NONE);
	} else if (is(argv, "robust-inherit")) {
		robust(PTHREAD_PRIO_INHERIT);
	} else if (is(argv, "kinds")) {
		kind(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE);
		kind(PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE);
		kind(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE);
		kind(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE);
		kind(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT);
		kind(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT);
	} else if (is(argv, "clocks")) {
		clocks();
	} else if (is(argv, "refused")) {
		refused();
	} else if (is(argv, "refused-by-many")) {
		refused_by_many();
	} else if (is(argv, "protected")) {
		protected();
	} else if (is(argv, "foreign-unlock")) {
		/* Undefined, and common: a normal mutex used as a gate, unlocked by another thread. */
		make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
		for (int i = 0; i < 101; i++) {
			MUST(!pthread_mutex_lock(&m));
			pthread_join(start(unlocks, NULL), NULL);
		}
	} else {
		return no_such_way(argv);
	}
	return 0;
}
