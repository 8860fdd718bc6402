// A program whose functions are probed while it runs. Says "ready", works until its standard input
// ends or a line comes, then prints what it has done: the probes must have changed nothing.
#define _GNU_SOURCE
#include <pthread.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define probed __attribute__((noinline, noclone, used))

static atomic_int stop;
static atomic_long calls, handled;
static volatile long sink;

probed long leaf(long x)
{
	calls++;
	return x * 3 + 1;
}

probed long outer(long x)
{
	long sum = 0;
	for (int i = 0; i < 4; i++)
		sum += leaf(x + i);
	return sum;
}

probed long recurse(long n)
{
	sink = n;
	return n ? recurse(n - 1) + sink : 0;
}

static jmp_buf back;

probed void jumps_out(int n)
{
	if (n)
		jumps_out(n - 1);
	else
		longjmp(back, 1);
	sink = n;
}

probed long survives(long n)
{
	if (!setjmp(back))
		jumps_out(5);
	return n + 1;
}

probed long tail_target(long n)
{
	return n + sink % 2;
}

probed long tail_caller(long n)
{
	sink = n;
	return tail_target(n + 1);
}

probed long chooses(long n)
{
	switch (n % 9) {
	case 0: return leaf(n);
	case 1: sink = n; return 5;
	case 2: sink += n; return n * 7;
	case 3: return n - sink;
	case 4: sink = 8; return 11;
	case 5: return leaf(n + 1) + 2;
	case 6: sink = 2; return n << 3;
	case 7: return n ^ 21;
	default: return 0;
	}
}

probed long spins(long n)
{
	long sum = n;
	for (int i = 0; i < 20000; i++)
		sum += sum * 5 + i;
	sink = sum;
	return sum + sink;
}

static void *work(void *argument)
{
	long sum = (long)argument;
	while (!stop) {
		sum += outer(sum & 7) + recurse(5) + tail_caller(3) + chooses(sum & 15);
		sink = sum;
		if (!(calls & 31))
			spins(sum);
	}
	return (void *)sum;
}

static ucontext_t contexts[2];
static char coroutine_stack[64 << 10];

probed void switches(void)
{
	swapcontext(&contexts[1], &contexts[0]);
	sink = 2;
}

static void coroutine(void)
{
	for (;;)
		switches();
}

probed void handles(int signal)
{
	(void)signal;
	handled++;
	sink = leaf(2);
}

probed void naps(void)
{
	usleep(20000);
	sink = 1; // no tail call
}

static atomic_int is_awake;

// Sleeps uninterruptibly: vfork returns when its child is gone.
static void *sleeps(void *unused)
{
	if (!vfork()) {
		(void)!write(1, "asleep\n", 7);
		while (!is_awake)
			usleep(1000);
		_exit(0);
	}
	return unused;
}

static void *calls_once(void *argument)
{
	return (void *)outer((long)argument);
}

// From now on gettid ends the process.
static void filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		perror("seccomp");
}

static void wait_for_line(void)
{
	char line[64];
	if (!fgets(line, sizeof line, stdin))
		line[0] = 0;
}

// Says "ready" from inside of four of its own calls.
probed long waits_inside(long n)
{
	if (!n) {
		puts("ready");
		wait_for_line();
		return 1;
	}
	sink = waits_inside(n - 1); // no loop of the compiler's
	return sink + 1;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "counts";
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(way, "counts")) {
		// Everything between two lines: exact counts.
		puts("ready");
		wait_for_line();
		long sum = 0;
		for (int i = 0; i < 1000; i++)
			sum += outer(i) + recurse(9) + survives(i) + tail_caller(i) + chooses(i);
		for (int i = 0; i < 10; i++)
			naps();
		printf("sum %ld\n", sum);
		wait_for_line();
	} else if (!strcmp(way, "threads")) {
		pthread_t threads[4];
		puts("ready");
		for (long i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, work, (void *)i);
		wait_for_line();
		stop = 1;
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		printf("calls %ld\n", calls);
		wait_for_line();
	} else if (!strcmp(way, "sleeps")) {
		pthread_t worker, sleeper;
		pthread_create(&worker, NULL, work, NULL);
		puts("ready");
		wait_for_line();
		pthread_create(&sleeper, NULL, sleeps, NULL);
		wait_for_line();
		is_awake = 1;
		pthread_join(sleeper, NULL);
		puts("awake");
		wait_for_line();
		stop = 1;
		pthread_join(worker, NULL);
		wait_for_line();
	} else if (!strcmp(way, "filters")) {
		puts("ready");
		wait_for_line();
		filter();
		for (long i = 0; i < 4; i++) {
			pthread_t thread;
			pthread_create(&thread, NULL, calls_once, (void *)i);
			pthread_join(thread, NULL);
		}
		printf("calls %ld\n", calls);
		wait_for_line();
	} else if (!strcmp(way, "locks")) {
		puts(mlockall(MCL_CURRENT | MCL_FUTURE) ? "not permitted" : "ready");
		wait_for_line();
	} else if (!strcmp(way, "short")) {
		// Threads that end, one after the other.
		puts("ready");
		wait_for_line();
		stop = 1;
		for (int i = 0; i < 200; i++) {
			pthread_t thread;
			stop = 0;
			pthread_create(&thread, NULL, (void *(*)(void *))outer, (void *)(long)i);
			pthread_join(thread, NULL);
		}
		printf("calls %ld\n", calls);
		wait_for_line();
	} else if (!strcmp(way, "signals")) {
		stack_t stack = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
		sigaltstack(&stack, NULL);
		struct sigaction action = {.sa_handler = handles, .sa_flags = SA_ONSTACK | SA_RESTART};
		sigaction(SIGALRM, &action, NULL);
		timer_t timer;
		struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
		timer_create(CLOCK_MONOTONIC, &event, &timer);
		struct itimerspec every = {{0, 200000}, {0, 200000}};
		puts("ready");
		wait_for_line();
		timer_settime(timer, 0, &every, NULL);
		long sum = 0;
		while (handled < 300)
			for (int i = 0; i < 100; i++)
				sum += outer(i) + recurse(3);
		every = (struct itimerspec){0};
		timer_settime(timer, 0, &every, NULL);
		printf("calls %ld\n", calls);
		wait_for_line();
		sink = sum;
	} else if (!strcmp(way, "contexts")) {
		getcontext(&contexts[1]);
		contexts[1].uc_stack.ss_sp = coroutine_stack;
		contexts[1].uc_stack.ss_size = sizeof coroutine_stack;
		makecontext(&contexts[1], coroutine, 0);
		puts("ready");
		wait_for_line();
		long sum = 0;
		for (int i = 0; i < 1000; i++) {
			swapcontext(&contexts[0], &contexts[1]);
			sum += outer(i);
		}
		printf("sum %ld\n", sum);
		wait_for_line();
	} else if (!strcmp(way, "inside")) {
		printf("sum %ld\n", waits_inside(3));
		wait_for_line();
	} else if (!strcmp(way, "forks")) {
		puts("ready");
		wait_for_line();
		long good = 0;
		for (int i = 0; i < 50; i++) {
			pid_t child = i % 2 ? fork() : vfork();
			if (!child && i % 2)
				_exit(outer(i) + recurse(4) == 0);
			if (!child)
				_exit(0);
			int status;
			waitpid(child, &status, 0);
			good += status == 0 && outer(i) > 0;
		}
		printf("good %ld\n", good);
		wait_for_line();
	} else if (!strcmp(way, "execs")) {
		puts("ready");
		wait_for_line();
		sink = outer(1);
		execl("/proc/self/exe", argv[0], "counts", NULL);
	}
	return 0;
}
