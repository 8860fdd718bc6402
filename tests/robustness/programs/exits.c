/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Every way for a process to end while a second thread still lives. */
#include "rob.h"

static void at_exit(void)
{
	puts("atexit ran");
}

static void *forever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *exits_in_thread(void *arg)
{
	(void)arg;
	exit(23);
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	atexit(at_exit);
	at_quick_exit(at_exit);
	start(forever, NULL);
	pthread_join(start(counted_main, (void *)198), NULL);
	counted_section(203);
	if (is(argv, "return"))
		return 7;
	if (is(argv, "exit"))
		exit(11);
	if (is(argv, "_exit"))
		_exit(13);
	if (is(argv, "quick_exit"))
		quick_exit(17);
	if (is(argv, "abort"))
		abort();
	if (is(argv, "segv"))
		*(volatile int *)0 = 1;
	if (is(argv, "kill"))
		kill(getpid(), SIGKILL);
	if (is(argv, "term"))
		raise(SIGTERM);
	if (is(argv, "thread")) {
		start(exits_in_thread, NULL);
		for (;;)
			pause();
	}
	return no_such_way(argv);
}
