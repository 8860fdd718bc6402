/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Every way to get another process. Each does counted work of its own; the profile must have it all. */
#include "rob.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>

extern char **environ;
static char *self;

static void reap(pid_t pid)
{
	int status;

	MUST(waitpid(pid, &status, 0) == pid);
	printf("child: exited %d status %d signal %d\n", WIFEXITED(status), WIFEXITED(status) ? WEXITSTATUS(status) : -1,
	       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	fflush(stdout);
}

/* The child goes on with threads: its agent must have an arena of its own by then. */
static pid_t fork_and_work(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		counted_section(101);
		pthread_join(start(counted_main, (void *)100), NULL);
		_exit(3);
	}
	MUST(pid > 0);
	return pid;
}

static void *forks(void *arg)
{
	reap(fork_and_work());
	return arg;
}

static volatile int stop;

static void *locks_all_the_time(void *lock)
{
	while (!stop) {
		pthread_mutex_lock((pthread_mutex_t *)lock);
		pthread_mutex_unlock((pthread_mutex_t *)lock);
	}
	return NULL;
}

static pthread_mutex_t atfork_lock = PTHREAD_MUTEX_INITIALIZER;

static void atfork_prepare(void)
{
	pthread_mutex_lock(&atfork_lock);
}

static void atfork_done(void)
{
	pthread_mutex_unlock(&atfork_lock);
}

static char stack[65536] __attribute__((aligned(16)));

static int clone_main(void *arg)
{
	(void)arg;
	counted_section(100);
	_exit(9);
}

/* Both at once, so that one table would not do for both. */
static void side_by_side(pid_t pid)
{
	MUST(pid >= 0);
	counted_section(200003);
	if (pid == 0)
		_exit(9);
	reap(pid);
}

int main(int argc, char **argv)
{
	char *child_args[] = { self = argv[0], (char *)"child", NULL };
	char *no_env[] = { NULL };
	char command[4200];
	pid_t pid;

	(void)argc;
	if (is(argv, "child")) {
		pthread_join(start(counted_main, (void *)100), NULL);
		counted_section(101);
		puts("child works");
		return 3;
	}
	counted_section(198);
	snprintf(command, sizeof command, "%s child", argv[0]);
	if (is(argv, "plain")) {
		reap(fork_and_work());
	} else if (is(argv, "many")) {
		pid_t children[20];

		for (int i = 0; i < 20; i++)
			children[i] = fork_and_work();
		for (int i = 0; i < 20; i++)
			reap(children[i]);
	} else if (is(argv, "exec")) {
		if ((pid = fork()) == 0) {
			execv(self, child_args);
			_exit(99);
		}
		reap(pid);
	} else if (is(argv, "exec-self")) {
		execv(self, child_args);
	} else if (is(argv, "exec-list")) {
		MUST(execl("/no/such/file", "it", NULL) == -1 && errno == ENOENT);
		MUST(execlp("no-such-command", "it", "with", "words", NULL) == -1 && errno == ENOENT);
		MUST(execle("/no/such/file", "it", "1", "2", "3", NULL, no_env) == -1 && errno == ENOENT);
		execle(self, self, "child", NULL, environ);
	} else if (is(argv, "exec-missing")) {
		MUST(execv("/no/such/file", child_args) == -1 && errno == ENOENT);
		counted_section(203);
	} else if (is(argv, "exec-no-preload")) {
		unsetenv("LD_PRELOAD");
		execv(self, child_args);
	} else if (is(argv, "exec-no-env")) {
		if ((pid = fork()) == 0) {
			execve(self, child_args, no_env);
			_exit(99);
		}
		reap(pid);
	} else if (is(argv, "vfork")) {
		if ((pid = vfork()) == 0) {
			execv(self, child_args);
			_exit(99);
		}
		reap(pid);
	} else if (is(argv, "spawn")) {
		MUST(!posix_spawn(&pid, self, NULL, NULL, child_args, environ));
		reap(pid);
	} else if (is(argv, "system")) {
		fflush(stdout);
		printf("system: %d\n", WEXITSTATUS(system(command)));
	} else if (is(argv, "popen")) {
		char line[64] = "";
		FILE *f = popen(command, "r");

		MUST(f && fgets(line, sizeof line, f));
		printf("popen: %s", line);
		printf("pclose: %d\n", WEXITSTATUS(pclose(f)));
	} else if (is(argv, "thread")) {
		pthread_join(start(forks, NULL), NULL);
	} else if (is(argv, "daemon")) {
		int done[2];
		char byte;

		/* The daemon is not waited for by its parent, only through the pipe: it outlives main's child. */
		MUST(!pipe(done));
		if ((pid = fork()) == 0) {
			setsid();
			if (fork() == 0) {
				counted_section(101);
				MUST(write(done[1], "x", 1) == 1);
				_exit(0);
			}
			_exit(4);
		}
		close(done[1]);
		reap(pid);
		MUST(read(done[0], &byte, 1) == 1);
	} else if (is(argv, "locked")) {
		/* Threads are in the middle of lock operations, of the program's and of the agent's, at every fork. */
		pthread_t busy[3];

		pthread_atfork(atfork_prepare, atfork_done, atfork_done);
		for (int i = 0; i < 3; i++)
			busy[i] = start(locks_all_the_time, &atfork_lock);
		for (int i = 0; i < 20; i++) {
			pid = fork();
			if (pid == 0) {
				counted_section(101);
				pthread_mutex_lock(&atfork_lock);
				pthread_mutex_unlock(&atfork_lock);
				_exit(3);
			}
			reap(pid);
		}
		stop = 1;
		for (int i = 0; i < 3; i++)
			pthread_join(busy[i], NULL);
	} else if (is(argv, "clone")) {
		pid = clone(clone_main, stack + sizeof stack, SIGCHLD, NULL);
		MUST(pid > 0);
		reap(pid);
	} else if (is(argv, "_Fork")) {
		side_by_side(_Fork());
	} else if (is(argv, "clone3")) {
		uint64_t request[11] = { [4] = SIGCHLD };

		side_by_side((pid_t)syscall(SYS_clone3, request, sizeof request));
	} else if (is(argv, "raw-fork")) {
		/* Behind libc's back: no atfork handler runs. */
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid == 0) {
			pthread_mutex_lock(&atfork_lock);
			pthread_mutex_unlock(&atfork_lock);
			_exit(6);
		}
		reap(pid);
	} else {
		return no_such_way(argv);
	}
	puts("parent ends");
	return 5;
}
