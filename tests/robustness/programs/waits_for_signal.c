/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Says that it is ready, then works until a signal ends it, by default or through a handler. */
#include "rob.h"

static volatile sig_atomic_t asked;

static void asks(int sig)
{
	asked = sig;
}

static void *idles(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(int argc, char **argv)
{
	(void)argc;
	/* Whoever runs the tests in the background left SIGINT ignored. */
	signal(SIGINT, is(argv, "handler") ? asks : SIG_DFL);
	start(idles, NULL);
	counted_section(401);
	puts("ready");
	fflush(stdout);
	while (!asked)
		fx_sleep_us(1000);
	printf("asked by %d\n", (int)asked);
	return 6;
}
