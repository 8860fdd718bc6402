/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Programs that do what an agent that comes and goes must survive: exec from any thread, sleep that
 * nothing interrupts, children that are made behind the C library's back, handlers on stacks of
 * their own. Each checks itself, and works until SIGINT. */
#include "rob.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define THREADS 4
#define JUMP 0xe9

static volatile sig_atomic_t asked;
static pthread_mutex_t busy_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t busy_total, done[THREADS];
static int wrong;

static void asks(int sig)
{
	asked = sig;
}

static void nap(long ns)
{
	struct timespec t = { 0, ns };

	nanosleep(&t, NULL);
}

static FX_NOINLINE void busy_section(void)
{
	MUST(!pthread_mutex_lock(&busy_lock));
	busy_total++;
	MUST(!pthread_mutex_unlock(&busy_lock));
}

static void *works(void *mine)
{
	while (!asked) {
		busy_section();
		++*(uint64_t *)mine;
		free(malloc(100));
	}
	return NULL;
}

static void check_sum(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < THREADS; i++)
		sum += done[i];
	wrong |= sum != busy_total;
}

/* ---- a thread in uninterruptible sleep: the parent of a vfork, until SIGINT ---- */

static void *sleeps_uninterruptibly(void *arg)
{
	int status;
	pid_t pid = vfork();

	if (pid == 0) {
		while (!asked)
			nap(10000000);
		_exit(3);
	}
	while (waitpid(pid, &status, 0) < 0)
		MUST(errno == EINTR);
	wrong |= !WIFEXITED(status) || WEXITSTATUS(status) != 3;
	return arg;
}

static void vforks(void)
{
	pthread_t t[THREADS];

	t[0] = start(sleeps_uninterruptibly, NULL);
	for (int i = 1; i < THREADS; i++)
		t[i] = start(works, &done[i]);
	for (int i = 0; i < THREADS; i++)
		MUST(!pthread_join(t[i], NULL));
	check_sum();
}

/* ---- exec from another thread than the first one, all the time ---- */

static char **own_argv;

static void *waits(void *arg)
{
	while (poll(NULL, 0, -1))
		;
	return arg;
}

static void *execs(void *arg)
{
	char *argv[] = { own_argv[0], own_argv[1], (char *)"again", NULL };

	nap(30000000 + (long)(fx_now_ns() % 50000000));
	execv("/proc/self/exe", argv);
	abort();
	return arg;
}

static int execs_until_asked(int argc)
{
	struct timespec none = { 0, 0 };
	sigset_t set;

	/* Blocked in each of its lives, so that none is lost. */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	MUST(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	if (argc < 3) {
		puts("ready");
		fflush(stdout);
	}
	if (sigtimedwait(&set, NULL, &none) == SIGINT)
		return 0;
	for (int i = 0; i < 200; i++)
		start(waits, NULL);
	start(execs, NULL);
	for (;;)
		pause();
}

/* ---- children with a copy of the memory ---- */

static pthread_mutex_t child_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t child_total;

static int works_alone(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++) {
		MUST(!pthread_mutex_lock(&child_lock));
		child_total++;
		MUST(!pthread_mutex_unlock(&child_lock));
	}
	return child_total == 1000 ? 3 : 4;
}

static void ended(pid_t pid)
{
	int status;

	MUST(pid > 0);
	while (waitpid(pid, &status, 0) < 0)
		MUST(errno == EINTR);
	wrong |= !WIFEXITED(status) || WEXITSTATUS(status) != 3;
}

static void children(void)
{
	size_t bytes = 256 << 10;
	char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t = start(works, &done[0]);

	MUST(stack != MAP_FAILED);
	while (!asked) {
		pid_t pid = _Fork();

		if (pid == 0)
			_exit(works_alone(NULL));
		ended(pid);
		ended(clone(works_alone, stack + bytes, SIGCHLD, NULL));
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
		if (pid == 0)
			_exit(works_alone(NULL));
		ended(pid);
	}
	MUST(!pthread_join(t, NULL));
	check_sum();
}

/* ---- a handler on a stack of its own, of a thread that waits in a hook ---- */

static pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wait_cond = PTHREAD_COND_INITIALIZER;
static int may_go;

static void stays(int sig)
{
	(void)sig;
	while (!asked)
		nap(5000000);
}

static int is_hooked(void)
{
	return *(volatile const unsigned char *)pthread_cond_wait == JUMP;
}

static void *waits_in_a_hook(void *arg)
{
	size_t bytes = 64 << 10;
	stack_t own = { .ss_size = bytes };

	own.ss_sp = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(own.ss_sp != MAP_FAILED && !sigaltstack(&own, NULL));
	while (!asked && !is_hooked())
		nap(1000000);
	MUST(!pthread_mutex_lock(&wait_lock));
	__atomic_store_n((int *)arg, 1, __ATOMIC_SEQ_CST);
	while (!may_go)
		MUST(!pthread_cond_wait(&wait_cond, &wait_lock));
	MUST(!pthread_mutex_unlock(&wait_lock));
	return NULL;
}

static void handlers(void)
{
	struct sigaction action = { .sa_handler = stays, .sa_flags = SA_ONSTACK };
	int is_waiting = 0;
	pthread_t waiter, worker = start(works, &done[0]);

	MUST(!sigaction(SIGUSR1, &action, NULL));
	waiter = start(waits_in_a_hook, &is_waiting);
	while (!asked && !__atomic_load_n(&is_waiting, __ATOMIC_SEQ_CST))
		nap(1000000);
	/* It lets go of the lock when it waits. */
	MUST(!pthread_mutex_lock(&wait_lock));
	MUST(!pthread_mutex_unlock(&wait_lock));
	MUST(!pthread_kill(waiter, SIGUSR1));
	puts("handles");
	fflush(stdout);
	while (!asked)
		pause();
	MUST(!pthread_mutex_lock(&wait_lock));
	may_go = 1;
	MUST(!pthread_cond_signal(&wait_cond));
	MUST(!pthread_mutex_unlock(&wait_lock));
	MUST(!pthread_join(waiter, NULL));
	MUST(!pthread_join(worker, NULL));
	check_sum();
}

/* ---- a filter of one thread only ---- */

static void *filtered(void *arg)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &all };

	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	while (!asked)
		nap(5000000);
	return arg;
}

static void filters(void)
{
	pthread_t t = start(filtered, NULL);

	while (!asked)
		pause();
	MUST(!pthread_join(t, NULL));
}

int main(int argc, char **argv)
{
	own_argv = argv;
	if (is(argv, "execs")) {
		wrong = execs_until_asked(argc);
	} else {
		signal(SIGINT, asks);
		puts("ready");
		fflush(stdout);
		if (is(argv, "vforks"))
			vforks();
		else if (is(argv, "children"))
			children();
		else if (is(argv, "handlers"))
			handlers();
		else if (is(argv, "filters"))
			filters();
		else
			return no_such_way(argv);
	}
	puts(wrong ? "wrong" : "right");
	return wrong ? 1 : 6;
}
