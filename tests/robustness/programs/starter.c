/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Starts a command in one of the ways that there are, and ends as it did: starter WAY COMMAND... */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int start(const char *way, char **command)
{
	pid_t pid;

	if (strcmp(way, "spawn") == 0)
		return posix_spawn(&pid, command[0], NULL, NULL, command, environ) ? -1 : pid;
	if (strcmp(way, "spawnp") == 0)
		return posix_spawnp(&pid, command[0], NULL, NULL, command, environ) ? -1 : pid;
	pid = strcmp(way, "vfork") == 0 ? vfork() : fork();
	if (pid == 0) {
		if (strcmp(way, "fexecve") == 0)
			fexecve(open(command[0], O_RDONLY | O_CLOEXEC), command, environ);
		else if (strcmp(way, "execvp") == 0)
			execvp(command[0], command);
		else
			execv(command[0], command);
		_exit(126);
	}
	return pid;
}

int main(int argc, char **argv)
{
	int status, pid;

	if (argc < 3)
		return 2;
	pid = start(argv[1], argv + 2);
	if (pid < 0) {
		perror(argv[2]);
		return 3;
	}
	if (waitpid(pid, &status, 0) != pid)
		return 4;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
