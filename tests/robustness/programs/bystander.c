/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Builds with any C library and for any word size, counts with three threads, says on both streams what it has,
 * and ends with a status of its own. `bystander preload`: says what it would preload. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int count;

static void *add(void *unused)
{
	(void)unused;
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		count++;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[3];

	if (argc > 1 && strcmp(argv[1], "preload") == 0) {
		const char *preload = getenv("LD_PRELOAD");

		printf("preload: %s\n", preload ? preload : "none");
		return 0;
	}
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread[i], NULL, add, NULL))
			return 1;
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	printf("count %d\n", count);
	fprintf(stderr, "bystander: %d\n", argc);
	return 7;
}
