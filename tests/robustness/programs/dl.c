/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Loads and unloads a library again and again, while another thread uses locks. */
#include "rob.h"

#include <dlfcn.h>

static const char *path;
static volatile int stop;

static void *loads(void *arg)
{
	for (int i = 0; i < 101; i++) {
		void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		void (*work)(void);

		if (!lib) {
			fprintf(stderr, "%s\n", dlerror());
			abort();
		}
		*(void **)&work = dlsym(lib, "plugin_work");
		MUST(work);
		work();
		MUST(!dlclose(lib));
	}
	return arg;
}

static void *locks(void *arg)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	while (!stop) {
		pthread_mutex_lock(&own);
		pthread_mutex_unlock(&own);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t user;

	MUST(argc == 2);
	path = argv[1];
	user = start(locks, NULL);
	pthread_join(start(loads, NULL), NULL);
	stop = 1;
	pthread_join(user, NULL);
	counted_section(203);
	MUST(dlopen("/no/such/library.so", RTLD_NOW) == NULL);
	printf("dlerror is kept: %d\n", dlerror() != NULL);
	/* Left open: its destructor runs at exit. */
	MUST(dlopen(path, RTLD_NOW));
	return 0;
}
