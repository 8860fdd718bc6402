/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What programs do while they hold a lock, however unwise: a tracer of the section must not be in the way. */
#include "rob.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static volatile int turn;
static volatile uint64_t work;
extern char **environ;

static FX_NOINLINE void some_work(int n)
{
	for (int i = 0; i < n; i++)
		work = work * 3 + (uint64_t)i;
}

static void take(void)
{
	MUST(!pthread_mutex_lock(&lock));
	some_work(50);
}

static void give(void)
{
	some_work(50);
	MUST(!pthread_mutex_unlock(&lock));
}

static void must_exit_with(pid_t pid, int expected)
{
	int status;

	MUST(waitpid(pid, &status, 0) == pid);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

static void forks(int raw)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid;

		take();
		pid = raw ? (pid_t)syscall(SYS_fork) : fork();
		if (pid == 0) {
			some_work(10);
			MUST(!pthread_mutex_unlock(&lock));
			take();
			give();
			_exit(i);
		}
		give();
		must_exit_with(pid, i);
	}
}

static void vforks(void)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid;

		take();
		pid = vfork();
		if (pid == 0) {
			execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
			_exit(99);
		}
		give();
		must_exit_with(pid, 7);
	}
}

static void spawns(void)
{
	char *const line[] = { "sh", "-c", "exit 5", NULL };

	for (int i = 0; i < 20; i++) {
		pid_t pid;

		take();
		MUST(!posix_spawn(&pid, "/bin/sh", NULL, NULL, line, environ));
		give();
		must_exit_with(pid, 5);
	}
}

static void execs(char **argv)
{
	take();
	execl("/proc/self/exe", argv[0], "nothing", (char *)NULL);
	MUST(0);
}

static void *make_thread(void *arg)
{
	take();
	give();
	return arg;
}

static void threads(void)
{
	pthread_t made[20];

	for (int i = 0; i < 20; i++) {
		take();
		made[i] = start(make_thread, NULL);
		give();
	}
	for (int i = 0; i < 20; i++)
		pthread_join(made[i], NULL);
}

/* Out of the section with the lock held, and within it. */
static void jumps(void)
{
	for (volatile int i = 0; i < 200; i++) {
		jmp_buf out, within;

		if (setjmp(out) == 0) {
			take();
			if (setjmp(within) == 0)
				longjmp(within, 1);
			some_work(5);
			longjmp(out, 1);
		}
		give();
	}
}

static void *other_side(void *arg)
{
	for (int i = 0; i < 500; i++) {
		take();
		while (turn != 1)
			MUST(!pthread_cond_wait(&cond, &lock));
		turn = 0;
		MUST(!pthread_cond_signal(&cond));
		give();
	}
	return arg;
}

static void waits(void)
{
	pthread_t other = start(other_side, NULL);

	for (int i = 0; i < 500; i++) {
		take();
		while (turn != 0)
			MUST(!pthread_cond_wait(&cond, &lock));
		turn = 1;
		MUST(!pthread_cond_signal(&cond));
		give();
	}
	pthread_join(other, NULL);
}

/* Code that is written, run and written again. */
static void generates(int both)
{
#if defined(__x86_64__)
	static const unsigned char code[] = { 0xb8, 0, 0, 0, 0, 0xc3 }; /* mov $n, %eax; ret */
	int rights = PROT_READ | PROT_WRITE | (both ? PROT_EXEC : 0);
	unsigned char *at = mmap(NULL, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long sum = 0;

	MUST(at != MAP_FAILED);
	for (int i = 0; i < 200; i++) {
		take();
		if (!both)
			MUST(!mprotect(at, 4096, PROT_READ | PROT_WRITE));
		memcpy(at, code, sizeof(code));
		at[1] = (unsigned char)(i % 100);
		if (!both)
			MUST(!mprotect(at, 4096, PROT_READ | PROT_EXEC));
		sum += ((int (*)(void))(uintptr_t)at)();
		give();
	}
	MUST(!munmap(at, 4096));
	printf("sum %ld\n", sum);
#else
	(void)both;
#endif
}

static volatile sig_atomic_t ticks;

static void on_tick(int sig)
{
	(void)sig;
	ticks = ticks + 1;
}

/* The handler sees the program's own code, not a copy of it: a timer that profiles relies on that. */
static volatile sig_atomic_t strange;

static void on_profile(int sig, siginfo_t *info, void *context)
{
#if defined(__x86_64__)
	uint64_t ip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	Dl_info of;

	/* vdso and the agent's own hooks are objects, too; a cache is in none */
	if (!dladdr((void *)(uintptr_t)ip, &of))
		strange = strange + 1;
#else
	(void)context;
#endif
	(void)sig;
	(void)info;
	ticks = ticks + 1;
}

static void ticking(void (*install)(void))
{
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } }, off = { { 0, 0 }, { 0, 0 } };

	install();
	MUST(!setitimer(ITIMER_REAL, &every, NULL));
	while (ticks < 400) { /* half as many have missed every section in one run of a hundred */
		take();
		some_work(2000);
		give();
	}
	MUST(!setitimer(ITIMER_REAL, &off, NULL));
	work = 0; /* it depends on how often the timer came */
	printf("strange %d\n", (int)strange);
}

static void install_plain(void)
{
	MUST(signal(SIGALRM, on_tick) == SIG_DFL);
	MUST(signal(SIGALRM, on_tick) == on_tick);
}

static void install_info(void)
{
	struct sigaction action = { .sa_sigaction = on_profile, .sa_flags = SA_SIGINFO | SA_RESTART }, old;

	sigemptyset(&action.sa_mask);
	MUST(!sigaction(SIGALRM, &action, NULL));
	MUST(!sigaction(SIGALRM, NULL, &old));
	MUST(old.sa_sigaction == on_profile && old.sa_flags & SA_SIGINFO);
}

static volatile sig_atomic_t faults;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	faults = faults + 1;
	MUST(!mprotect(info->si_addr, 4096, PROT_READ | PROT_WRITE));
}

static void on_fault_once(int sig)
{
	(void)sig;
	faults = faults + 1;
}

/* Faults that a handler mends, as garbage collectors do. */
static void mends(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, old;
	volatile char *at = mmap(NULL, 100 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(at != MAP_FAILED);
	MUST(!sigaction(SIGSEGV, &action, NULL));
	for (int i = 0; i < 100; i++) {
		take();
		at[i * 4096] = (char)i;
		some_work(at[i * 4096]);
		give();
	}
	/* reset by the first delivery */
	action.sa_handler = on_fault_once;
	action.sa_flags = SA_RESETHAND;
	MUST(!sigaction(SIGUSR1, &action, NULL));
	take();
	MUST(!raise(SIGUSR1));
	give();
	MUST(!sigaction(SIGUSR1, NULL, &old));
	MUST(old.sa_handler == SIG_DFL);
	printf("faults %d\n", (int)faults);
}

static sigjmp_buf away;

static void on_jump(int sig)
{
	(void)sig;
	siglongjmp(away, 1);
}

/* A handler that jumps out of the section. */
static void leaps(void)
{
	MUST(signal(SIGUSR2, on_jump) != SIG_ERR);
	for (volatile int i = 0; i < 200; i++) {
		take();
		if (sigsetjmp(away, 1) == 0)
			MUST(!raise(SIGUSR2));
		give();
	}
}

static void recursive(void)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t again;

	MUST(!pthread_mutexattr_init(&attr));
	MUST(!pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE));
	MUST(!pthread_mutex_init(&again, &attr));
	for (int i = 0; i < 200; i++) {
		for (int k = 0; k < 3; k++) {
			MUST(!pthread_mutex_lock(&again));
			some_work(5);
		}
		for (int k = 0; k < 3; k++)
			MUST(!pthread_mutex_unlock(&again));
	}
}

/* Code that can be run and not read. */
static void hidden(void)
{
#if defined(__x86_64__)
	static const unsigned char code[] = { 0x8d, 0x47, 0x01, 0xc3 }; /* lea 1(%rdi), %eax; ret */
	unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int n = 0;

	MUST(at != MAP_FAILED);
	memcpy(at, code, sizeof(code));
	MUST(!mprotect(at, 4096, PROT_EXEC));
	for (int i = 0; i < 50; i++) {
		take();
		n = ((int (*)(int))(uintptr_t)at)(n);
		give();
	}
	printf("n %d\n", n);
#endif
}

/* A handler that the C library knows nothing of, which takes locks itself. */
static pthread_mutex_t of_handler = PTHREAD_MUTEX_INITIALIZER;

static void on_raw(int sig, siginfo_t *info, void *context)
{
	on_profile(sig, info, context);
	strange = 0; /* it may see a copy */
	MUST(!pthread_mutex_lock(&of_handler));
	some_work(20);
	MUST(!pthread_mutex_unlock(&of_handler));
}

#if defined(__x86_64__)
__asm__(".text\nreturn_from_raw: mov $15, %eax\nsyscall\n");
extern void return_from_raw(void) __attribute__((visibility("hidden")));

static void install_raw(void)
{
	struct {
		void *handler;
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} action = { (void *)(uintptr_t)on_raw, SA_SIGINFO | SA_RESTART | 0x04000000, return_from_raw, 0 };
	register unsigned long bytes __asm__("r10") = sizeof(action.mask);
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(SYS_rt_sigaction), "D"(SIGALRM), "S"(&action), "d"(NULL), "r"(bytes)
			 : "rcx", "r11", "memory");
	MUST(r == 0);
}
#else
static void install_raw(void)
{
	install_info();
}
#endif

/* The section is left by cancellation; its cleanup releases the lock. */
static void clean_up(void *arg)
{
	*(volatile int *)arg += 1;
	give();
}

static void *sleeps_in_it(void *arg)
{
	take();
	pthread_cleanup_push(clean_up, arg);
	turn = 1;
	for (;;)
		usleep(1000000);
	pthread_cleanup_pop(0);
	return arg;
}

static void *spins_in_it(void *arg)
{
	MUST(!pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
	take();
	pthread_cleanup_push(clean_up, arg);
	turn = 1;
	while (turn)
		some_work(1);
	pthread_cleanup_pop(0);
	return arg;
}

static void cancels(void *(*routine)(void *))
{
	int cleaned = 0;
	void *result;

	for (int i = 0; i < 20; i++) {
		pthread_t t;

		turn = 0;
		t = start(routine, &cleaned);
		while (!turn)
			usleep(500);
		MUST(!pthread_cancel(t));
		MUST(!pthread_join(t, &result));
		MUST(result == PTHREAD_CANCELED);
		take();
		give();
	}
	work = 0;
	printf("cleaned %d\n", cleaned);
}

static void never_ends(void)
{
	take();
	some_work(200000); /* to the end of the program */
}

static void *ends_with_it(void *arg)
{
	take();
	return arg;
}

int main(int argc, char **argv)
{
	(void)argc;
	counted_section(101);
	if (is(argv, "fork"))
		forks(0);
	else if (is(argv, "raw-fork"))
		forks(1);
	else if (is(argv, "vfork"))
		vforks();
	else if (is(argv, "spawn"))
		spawns();
	else if (is(argv, "exec"))
		execs(argv);
	else if (is(argv, "thread"))
		threads();
	else if (is(argv, "longjmp"))
		jumps();
	else if (is(argv, "wait"))
		waits();
	else if (is(argv, "jit-rwx"))
		generates(1);
	else if (is(argv, "jit-mprotect"))
		generates(0);
	else if (is(argv, "timer"))
		ticking(install_plain);
	else if (is(argv, "profiler"))
		ticking(install_info);
	else if (is(argv, "raw-handler"))
		ticking(install_raw);
	else if (is(argv, "execute-only"))
		hidden();
	else if (is(argv, "cancel"))
		cancels(sleeps_in_it);
	else if (is(argv, "cancel-anywhere"))
		cancels(spins_in_it);
	else if (is(argv, "fault"))
		mends();
	else if (is(argv, "siglongjmp"))
		leaps();
	else if (is(argv, "recursive"))
		recursive();
	else if (is(argv, "never-ends"))
		never_ends();
	else if (is(argv, "thread-ends"))
		pthread_join(start(ends_with_it, NULL), NULL);
	else if (is(argv, "kill")) {
		take();
		raise(SIGKILL);
	} else if (!is(argv, "nothing"))
		return no_such_way(argv);
	printf("work %llu\n", (unsigned long long)work);
	return 0;
}
