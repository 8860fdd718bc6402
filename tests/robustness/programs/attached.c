/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Programs that an agent enters and leaves at any moment. Each checks itself, and works until
 * SIGINT. */
#include "rob.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define THREADS 8

static volatile sig_atomic_t asked;
static pthread_mutex_t busy_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t busy_total, done[THREADS];
static int wrong;

static void asks(int sig)
{
	asked = sig;
}

static FX_NOINLINE void busy_section(void)
{
	MUST(!pthread_mutex_lock(&busy_lock));
	busy_total++;
	MUST(!pthread_mutex_unlock(&busy_lock));
}

/* Allocates all the time, and looks whether its memory and its registers are what they were. */
static void *allocates(void *arg)
{
	uint64_t *mine = arg;
	unsigned random = (unsigned)(mine - done) * 7 + 1;
	double sum = 0;

	while (!asked) {
		random = random * 1103515245 + 12345;
		size_t size = (random >> 8) % 5000 + 1;
		char *p = malloc(size);

		memset(p, (int)(random & 255), size);
		busy_section();
		++*mine;
		sum = sum * 0.5 + (double)size;
		MUST(sum > 0 && sum < 1e5);
		for (size_t i = 0; i < size; i += 97)
			MUST(p[i] == (char)(random & 255));
		free(p);
	}
	return NULL;
}

/* The main thread works as well: nobody sleeps. */
static void work(void)
{
	pthread_t t[THREADS];
	uint64_t sum = 0;

	for (int i = 1; i < THREADS; i++)
		t[i] = start(allocates, &done[i]);
	allocates(&done[0]);
	for (int i = 1; i < THREADS; i++)
		MUST(!pthread_join(t[i], NULL));
	for (int i = 0; i < THREADS; i++)
		sum += done[i];
	wrong = sum != busy_total;
}

/* A fork child has the parent's code as it was, and locks and threads of its own. If convoy has come
 * to the child as well, the code is as it was when convoy has left. */
static int child(void)
{
	const struct timespec pause = { 0, 10000000 };
	const volatile unsigned char *code = (const unsigned char *)pthread_mutex_lock;

	counted_section(101);
	MUST(!pthread_join(start(counted_main, (void *)101), NULL));
	free(malloc(100));
	for (int i = 0; i < 1000 && code[0] == 0xe9; i++)
		nanosleep(&pause, NULL);
	return counted == 202 && code[0] != 0xe9 ? 3 : 4;
}

static void expect_status(const char *child, int status, int expected)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == expected)
		return;
	fprintf(stderr, "the child of %s ended with %#x\n", child, status);
	wrong = 1;
}

static void forks(void)
{
	pthread_t t = start(allocates, &done[0]);

	while (!asked) {
		pid_t pid = fork();
		int status;

		MUST(pid >= 0);
		if (pid == 0)
			_exit(child());
		while (waitpid(pid, &status, 0) < 0)
			MUST(errno == EINTR);
		expect_status("fork", status, 3);
		pid = vfork();
		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(9);
		}
		while (waitpid(pid, &status, 0) < 0)
			MUST(errno == EINTR);
		/* The one that ends the program goes to the whole group. */
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGINT)
			expect_status("vfork", status, 0);
	}
	MUST(!pthread_join(t, NULL));
}

/* Calls that an interruption by a tracer would end early, each in a thread of its own. */
static void sleep_check(const char *call, int ok, uint64_t began, uint64_t least_ns)
{
	if (asked || (ok && fx_now_ns() - began + 2000000 >= least_ns))
		return;
	fprintf(stderr, "%s ended early or with an error: %s\n", call, strerror(errno));
	wrong = 1;
}

static void *naps(void *arg)
{
	while (!asked) {
		uint64_t began = fx_now_ns();
		struct timespec t = { 0, 150000000 };

		sleep_check("nanosleep", nanosleep(&t, NULL) == 0, began, 150000000);
	}
	return arg;
}

static void *polls(void *arg)
{
	while (!asked) {
		uint64_t began = fx_now_ns();

		sleep_check("poll", poll(NULL, 0, 120) == 0, began, 120000000);
	}
	return arg;
}

static void *waits_for_events(void *arg)
{
	int fd = epoll_create1(0);
	struct epoll_event event;

	while (!asked) {
		uint64_t began = fx_now_ns();

		sleep_check("epoll_wait", epoll_wait(fd, &event, 1, 130) == 0, began, 130000000);
	}
	return arg;
}

static void *waits_for_signals(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	while (!asked) {
		uint64_t began = fx_now_ns();
		struct timespec t = { 0, 110000000 };
		int r = sigtimedwait(&set, NULL, &t);

		sleep_check("sigtimedwait", r < 0 && errno == EAGAIN, began, 110000000);
	}
	return arg;
}

static void *waits_for_semaphore(void *arg)
{
	int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf take = { 0, -1, 0 };

	while (!asked) {
		uint64_t began = fx_now_ns();
		struct timespec t = { 0, 140000000 };
		int r = semtimedop(id, &take, 1, &t);

		sleep_check("semtimedop", r < 0 && errno == EAGAIN, began, 140000000);
	}
	semctl(id, 0, IPC_RMID);
	return arg;
}

/* A socket with a time limit. */
static int quiet_socket(int pair[2])
{
	struct timeval limit = { 0, 160000 };

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	MUST(!setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
	return pair[0];
}

static void *receives(void *arg)
{
	int pair[2], fd = quiet_socket(pair);
	char byte;

	while (!asked) {
		uint64_t began = fx_now_ns();

		sleep_check("recv", recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN, began, 160000000);
	}
	return arg;
}

static void *reads_into_vectors(void *arg)
{
	int pair[2], fd = quiet_socket(pair);
	char byte;
	struct iovec into = { &byte, 1 };

	while (!asked) {
		uint64_t began = fx_now_ns();

		sleep_check("readv", readv(fd, &into, 1) < 0 && errno == EAGAIN, began, 160000000);
	}
	return arg;
}

/* Waits for a request that takes so long; where there is no io_uring, nothing is tried. */
static void *waits_for_ring(void *arg)
{
	struct io_uring_params p = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, 4, &p);
	struct __kernel_timespec t = { 0, 120000000 };
	size_t ring = p.sq_off.array + p.sq_entries * sizeof(unsigned);
	char *sq, *cq;
	struct io_uring_sqe *sqe;

	if (fd < 0)
		return arg;
	sq = mmap(NULL, ring, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
		  PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)IORING_OFF_CQ_RING);
	sqe = mmap(NULL, p.sq_entries * sizeof *sqe, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   (off_t)IORING_OFF_SQES);
	MUST(sq != MAP_FAILED && cq != MAP_FAILED && (void *)sqe != MAP_FAILED);
	memset(sqe, 0, sizeof *sqe);
	sqe->opcode = IORING_OP_TIMEOUT;
	sqe->addr = (uint64_t)(uintptr_t)&t;
	sqe->len = 1;
	((unsigned *)(void *)(sq + p.sq_off.array))[0] = 0;
	while (!asked) {
		uint64_t began = fx_now_ns();
		unsigned *tail = (unsigned *)(void *)(sq + p.sq_off.tail);
		unsigned *head = (unsigned *)(void *)(cq + p.cq_off.head);
		unsigned mask = *(unsigned *)(void *)(sq + p.sq_off.ring_mask);
		long r;

		((unsigned *)(void *)(sq + p.sq_off.array))[*tail & mask] = 0;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		MUST(syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0) == 1);
		r = syscall(SYS_io_uring_enter, fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
		sleep_check("io_uring_enter", r == 0, began, 120000000);
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
	return arg;
}

static void sleeps(void)
{
	void *(*const all[])(void *) = { naps,	   polls,	       waits_for_events,
					 waits_for_signals, waits_for_semaphore, receives,
					 reads_into_vectors, waits_for_ring };
	enum { CALLS = sizeof all / sizeof all[0] };
	pthread_t t[CALLS];
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR2);
	MUST(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	for (int i = 0; i < CALLS; i++)
		t[i] = start(all[i], NULL);
	sigdelset(&set, SIGUSR2);
	MUST(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
	while (!asked)
		pause();
	for (int i = 0; i < CALLS; i++)
		MUST(!pthread_join(t[i], NULL));
}

static void filtered(void)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &all };

	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	while (!asked)
		pause();
}

int main(int argc, char **argv)
{
	(void)argc;
	signal(SIGINT, asks);
	puts("ready");
	fflush(stdout);
	if (is(argv, "works"))
		work();
	else if (is(argv, "forks"))
		forks();
	else if (is(argv, "sleeps"))
		sleeps();
	else if (is(argv, "filtered"))
		filtered();
	else
		return no_such_way(argv);
	puts(wrong ? "wrong" : "right");
	return wrong ? 1 : 6;
}
