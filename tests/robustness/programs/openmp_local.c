/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* OpenMP that only a plugin knows of, as in an extension module of Python; and OpenMP that is not there. */
#include "rob.h"

#include <dlfcn.h>

extern void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags) __attribute__((weak));

static void body(void *arg)
{
	puts(arg);
}

int main(int argc, char **argv)
{
	counted_section(203);
	/* A program that asks whether OpenMP is there gets its work done either way. */
	if (GOMP_parallel)
		GOMP_parallel(body, "the body ran", 1, 0);
	else
		body("the body ran");
	/* Its idle threads run in libgomp: without this they crash when the last plugin is closed. */
	dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	for (int i = 0; argc == 2 && i < 3; i++) {
		void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

		MUST(plugin);
		printf("%d\n", ((int (*)(void))dlsym(plugin, "result"))());
		printf("%d\n", ((int (*)(void))dlsym(plugin, "run"))());
		dlclose(plugin);
	}
	return 0;
}
