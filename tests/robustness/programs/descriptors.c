/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Closes every descriptor but stdout, as daemons do, and goes on with threads; or lists what it was given. */
#include "rob.h"

#include <dirent.h>
#include <fcntl.h>

int main(int argc, char **argv)
{
	(void)argc;
	counted_section(103);
	if (is(argv, "close-all")) {
		close(0);
		close(2);
		closefrom(3);
		pthread_join(start(counted_main, (void *)100), NULL);
		/* The lowest free one: no hook may have taken it. */
		printf("next descriptor: %d\n", open("/dev/null", O_RDONLY));
	} else if (is(argv, "list")) {
		/* A program must not inherit descriptors that it did not open. */
		for (int fd = 3; fd < 200; fd++)
			if (fcntl(fd, F_GETFD) != -1)
				printf("open: %d\n", fd);
	} else if (is(argv, "dup-all")) {
		/* Fills every slot, as a server at its limit. */
		while (dup(1) != -1) {
		}
		pthread_join(start(counted_main, (void *)100), NULL);
		printf("%d\n", errno == EMFILE);
	} else {
		return no_such_way(argv);
	}
	return 0;
}
