/* timed FILE COMMAND...: runs a command that has no clock of its own and writes its elapsed time, CPU time and largest
 * resident size into FILE, in the cases' format. Started by the profiler as its target, so that the profiler's own start
 * and report are not in the figures. A signal that ends the whole group (a server is stopped so) only ends the command.
 * Ends as the command does. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static void stay(int signal)
{
	(void)signal;
}

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

int main(int argc, char **argv)
{
	struct bench_start start = bench_start();
	struct rusage usage;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: timed FILE COMMAND...\n");
		return 2;
	}
	/* A handler, and not SIG_IGN, because the command would inherit that. */
	struct sigaction action = { .sa_handler = stay, .sa_flags = SA_RESTART };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	pid_t pid = fork();

	if (pid == 0) {
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid) {
		perror("timed");
		return 1;
	}
	FILE *file = fopen(argv[1], "w");

	if (!file) {
		perror(argv[1]);
		return 1;
	}
	fprintf(file, "elapsed_ns=%llu cpu_ns=%llu maxrss_bytes=%llu ops=1\n",
		(unsigned long long)(bench_clock_ns(CLOCK_MONOTONIC) - start.elapsed_ns),
		(unsigned long long)(timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime)),
		(unsigned long long)usage.ru_maxrss * 1024);
	fclose(file);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
