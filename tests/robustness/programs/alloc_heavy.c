/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Allocates in four threads, for runs with another allocator preloaded. Says whose malloc it is. */
#include "rob.h"

#include <dlfcn.h>

static void *allocates(void *arg)
{
	void *keep[64] = { 0 };

	for (int i = 0; i < 100003; i++) {
		free(keep[i % 64]);
		keep[i % 64] = malloc((size_t)(i % 977) + 1);
	}
	for (int i = 0; i < 64; i++)
		free(keep[i]);
	counted_section(101);
	return arg;
}

int main(void)
{
	pthread_t t[4];
	Dl_info info;
	const char *name;

	for (int i = 0; i < 4; i++)
		t[i] = start(allocates, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	MUST(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info));
	name = strrchr(info.dli_fname, '/');
	printf("malloc of %s\n", name ? name + 1 : info.dli_fname);
	return 0;
}
