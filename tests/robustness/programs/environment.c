/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Prints its environment and what a child of a shell gets: what Convoy adds must be what docs/limits.md says. */
#include "rob.h"

extern char **environ;

int main(void)
{
	counted_section(3);
	for (char **e = environ; *e; e++)
		puts(*e);
	return 0;
}
