/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Handlers that do what they should not: take locks, post, jump away. A timer runs at 1 kHz while four
 * threads do nothing but lock, so that handlers interrupt the hooks in every instruction there is.
 */
#include "rob.h"

#include <semaphore.h>
#include <setjmp.h>
#include <sys/time.h>

static pthread_mutex_t handler_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t posted;
static volatile sig_atomic_t handled;
static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t may_jump;
static int may_end;

static void posts(int sig)
{
	(void)sig;
	handled++;
	sem_post(&posted);
}

/* A lock that only handlers take, one at a time: trylock, so that it cannot dead-lock with itself. */
static void locks(int sig)
{
	int saved = errno;

	(void)sig;
	handled++;
	if (!pthread_mutex_trylock(&handler_lock))
		pthread_mutex_unlock(&handler_lock);
	sem_post(&posted);
	errno = saved;
}

static void jumps(int sig)
{
	(void)sig;
	handled++;
	if (may_jump) {
		may_jump = 0;
		siglongjmp(back, 1);
	}
}

static void *locking_main(void *arg)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	uint64_t end = fx_now_ns() + 300000000;

	while (fx_now_ns() < end) {
		for (int i = 0; i < 100; i++) {
			errno = 77;
			pthread_mutex_lock(&own);
			pthread_mutex_unlock(&own);
			MUST(errno == 77);
		}
	}
	counted_section(101);
	return arg;
}

/* Jumps out of the handler, and so out of the hook that the handler interrupted, between two sections or in one. */
static void *jumped_main(void *arg)
{
	pthread_rwlock_t own = PTHREAD_RWLOCK_INITIALIZER;
	uint64_t end = fx_now_ns() + 300000000;
	volatile int jumped = 0;

	while (fx_now_ns() < end) {
		if (sigsetjmp(back, 1)) {
			jumped++;
			continue;
		}
		may_jump = 1;
		for (int i = 0; i < 1000; i++) {
			sem_trywait(&posted);
			pthread_cond_signal(&(pthread_cond_t)PTHREAD_COND_INITIALIZER);
		}
		may_jump = 0;
		pthread_rwlock_rdlock(&own);
		pthread_rwlock_unlock(&own);
	}
	may_jump = 0;
	counted_section(101);
	return arg;
}

/* As many interruptions as there can be, while a fixed number of operations is counted down to samples. */
static void *interrupts(void *target)
{
	while (!__atomic_load_n(&may_end, __ATOMIC_RELAXED))
		pthread_kill(*(pthread_t *)target, SIGPROF);
	return NULL;
}

static void sampled(void)
{
	pthread_t self = pthread_self(), other = start(interrupts, &self);

	counted_section(20000003);
	may_end = 1;
	pthread_join(other, NULL);
}

static void inits(int sig)
{
	(void)sig;
	pthread_mutex_init(&handler_lock, NULL);
}

/* The signal stack is an array of a caller's: the handler's frames are above those that it interrupted, as if
 * these had been left. */
static void inits_on_stack(void)
{
	pthread_t self = pthread_self(), other;
	struct sigaction sa = { .sa_handler = inits, .sa_flags = SA_ONSTACK | SA_RESTART };
	char array[65536];
	stack_t alt = { .ss_sp = array, .ss_size = sizeof array };
	pthread_mutex_t m;

	MUST(!sigaltstack(&alt, NULL));
	sigaction(SIGPROF, &sa, NULL);
	other = start(interrupts, &self);
	for (int i = 0; i < 3000000; i++)
		pthread_mutex_init(&m, NULL);
	may_end = 1;
	pthread_join(other, NULL);
	counted_section(101);
	signal(SIGPROF, SIG_IGN);
	alt.ss_flags = SS_DISABLE;
	sigaltstack(&alt, NULL);
}

int main(int argc, char **argv)
{
	struct itimerval khz = { { 0, 1000 }, { 0, 1000 } }, off = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { 0 };
	void *(*routine)(void *) = locking_main;
	pthread_t t[4];
	stack_t alt;

	(void)argc;
	sem_init(&posted, 0, 0);
	sa.sa_flags = SA_RESTART;
	if (is(argv, "post")) {
		sa.sa_handler = posts;
	} else if (is(argv, "lock")) {
		sa.sa_handler = locks;
	} else if (is(argv, "sampled")) {
		sa.sa_handler = posts;
		sigaction(SIGPROF, &sa, NULL);
		sampled();
		return 0;
	} else if (is(argv, "altstack")) {
		sa.sa_handler = locks;
		sa.sa_flags |= SA_ONSTACK;
		alt.ss_sp = malloc(alt.ss_size = 65536);
		alt.ss_flags = 0;
		MUST(!sigaltstack(&alt, NULL));
	} else if (is(argv, "altstack-on-stack")) {
		inits_on_stack();
		return 0;
	} else if (is(argv, "jump")) {
		sa.sa_handler = jumps;
		routine = jumped_main;
	} else {
		return no_such_way(argv);
	}
	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGPROF, &sa, NULL);
	setitimer(ITIMER_REAL, &khz, NULL);
	setitimer(ITIMER_PROF, &khz, NULL);
	for (int i = 0; i < 4; i++)
		t[i] = start(routine, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	setitimer(ITIMER_REAL, &off, NULL);
	setitimer(ITIMER_PROF, &off, NULL);
	printf("handled: %s\n", handled > 20 ? "many" : "few");
	return 0;
}
