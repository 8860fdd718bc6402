/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Gives up system calls, as renderers, media decoders and judges do, then makes threads and lets them end. The
 * kernel kills for every call that is not allowed any more.
 */
#include "rob.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <semaphore.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ON(name, action)                                       \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_##action)
#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

/* Opening a file, a socket or a process's memory. */
static struct sock_filter deny[] = {
	NUMBER,
	ON(open, KILL_PROCESS),
	ON(openat, KILL_PROCESS),
	ON(socket, KILL_PROCESS),
	ON(process_vm_readv, KILL_PROCESS),
	ON(ptrace, KILL_PROCESS),
	ON(memfd_create, KILL_PROCESS),
	ON(kill, KILL_PROCESS),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

/* Nothing but what this program itself needs to make threads, to wait and to print. */
static struct sock_filter allow[] = {
	NUMBER,
	ON(write, ALLOW),
	ON(futex, ALLOW),
	ON(clone, ALLOW),
	ON(clone3, ALLOW),
	ON(mmap, ALLOW),
	ON(munmap, ALLOW),
	ON(mprotect, ALLOW),
	ON(madvise, ALLOW),
	ON(brk, ALLOW),
	ON(rseq, ALLOW),
	ON(set_robust_list, ALLOW),
	ON(rt_sigprocmask, ALLOW),
	ON(exit, ALLOW),
	ON(exit_group, ALLOW),
	ON(newfstatat, ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

/* And what the start of another program needs. */
static struct sock_filter allow_exec[] = {
	NUMBER,
	ON(execve, ALLOW),
	ON(openat, ALLOW),
	ON(access, ALLOW),
	ON(read, ALLOW),
	ON(pread64, ALLOW),
	ON(close, ALLOW),
	ON(arch_prctl, ALLOW),
	ON(set_tid_address, ALLOW),
	ON(prlimit64, ALLOW),
	ON(getrandom, ALLOW),
	ON(write, ALLOW),
	ON(mmap, ALLOW),
	ON(munmap, ALLOW),
	ON(mprotect, ALLOW),
	ON(brk, ALLOW),
	ON(rseq, ALLOW),
	ON(set_robust_list, ALLOW),
	ON(exit_group, ALLOW),
	ON(newfstatat, ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static struct sock_fprog exec_filter = { sizeof allow_exec / sizeof allow_exec[0], allow_exec };
static struct sock_fprog deny_filter = { sizeof deny / sizeof deny[0], deny };
static struct sock_fprog allow_filter = { sizeof allow / sizeof allow[0], allow };

static sem_t before, after;

/* A thread from before the sandbox, which ends in it. */
static void *waits(void *arg)
{
	sem_post(&before);
	sem_wait(&after);
	counted_section(100);
	return arg;
}

/* More objects and entries than anybody has made room for. */
static void *uses_many(void *arg)
{
	pthread_mutex_t *many = calloc(20000, sizeof *many);

	for (int i = 0; i < 20000; i++) {
		pthread_mutex_init(&many[i], NULL);
		pthread_mutex_lock(&many[i]);
		pthread_mutex_unlock(&many[i]);
	}
	return arg;
}

static void enter(char **argv)
{
	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (is(argv, "prctl"))
		MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &allow_filter));
	else if (is(argv, "syscall"))
		MUST(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &allow_filter));
	else if (is(argv, "refused"))
		MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) < 0);
	else if (is(argv, "clock"))
		MUST(!prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
	else if (is(argv, "exec"))
		MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &exec_filter));
	else if (is(argv, "strict"))
		MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	else
		MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &deny_filter));
}

int main(int argc, char **argv)
{
	static const char last[] = "nothing but read, write and exit\n";
	pthread_t old;

	(void)argc;
	if (is(argv, "again")) {
		puts("executed in the sandbox");
		return 0;
	}
	counted_section(101);
	if (is(argv, "exec")) {
		enter(argv);
		execl(argv[0], argv[0], "again", NULL);
		return 1;
	}
	sem_init(&before, 0, 0);
	sem_init(&after, 0, 0);
	old = start(waits, NULL);
	sem_wait(&before);
	if (is(argv, "strict")) {
		sem_post(&after);
		pthread_join(old, NULL);
		enter(argv);
		counted_section(10000);
		MUST(write(1, last, sizeof last - 1) > 0);
		syscall(SYS_exit, 0);
	}
	enter(argv);
	sem_post(&after);
	pthread_join(old, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(start(counted_main, (void *)100), NULL);
	pthread_join(start(uses_many, NULL), NULL);
	puts("sandboxed");
	return 0;
}
