/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The main thread ends at once; another one works until standard input is closed. */
#include "rob.h"

#include <poll.h>

static void *goes_on(void *arg)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	while (!poll(&input, 1, 1))
		counted_section(1);
	exit(7);
	return arg;
}

int main(void)
{
	start(goes_on, NULL);
	pthread_exit(NULL);
}
