/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* main() leaves with pthread_exit; the process lives on until its last thread ends, with status 0. */
#include "rob.h"

static void *outlives_main(void *arg)
{
	fx_sleep_us(50000);
	counted_section(198);
	puts("main has gone");
	return arg;
}

int main(void)
{
	counted_section(203);
	start(outlives_main, NULL);
	start(outlives_main, NULL);
	pthread_exit((void *)5);
}
