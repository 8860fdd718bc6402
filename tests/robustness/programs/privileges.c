/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Starts as root, then gives up the file system and the user, as servers do, and only then gets busy. */
#include "rob.h"

#include <grp.h>

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	(void)argc;
	counted_section(3);
	if (is(argv, "chroot") || is(argv, "both"))
		MUST(!chroot("."));
	if (is(argv, "setuid") || is(argv, "both")) {
		MUST(!setgroups(0, NULL) && !setgid(65534) && !setuid(65534));
		MUST(setuid(0) == -1);
	}
	pthread_join(start(counted_main, (void *)100), NULL);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		pthread_join(start(counted_main, (void *)100), NULL);
		counted_section(1);
		_exit(3);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	printf("uid %d, child %d\n", (int)getuid(), WEXITSTATUS(status));
	return 0;
}
