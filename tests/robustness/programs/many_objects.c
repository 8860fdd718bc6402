/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* 100,000 locks made, used and destroyed; or one piece of memory that is a different lock each time. */
#include "rob.h"

static FX_NOINLINE void counted_use(pthread_mutex_t *m)
{
	MUST(!pthread_mutex_lock(m));
	MUST(!pthread_mutex_unlock(m));
}

static void *uses_all(void *arg)
{
	pthread_mutex_t *locks = (pthread_mutex_t *)arg;

	for (int i = 0; i < 100000; i++)
		counted_use(&locks[i]);
	return NULL;
}

static FX_NOINLINE void one_site(pthread_mutex_t *m)
{
	MUST(!pthread_mutex_init(m, NULL));
}

static FX_NOINLINE void other_site(pthread_mutex_t *m)
{
	MUST(!pthread_mutex_init(m, NULL));
}

int main(int argc, char **argv)
{
	(void)argc;
	counted_section(203);
	if (is(argv, "many")) {
		pthread_mutex_t *locks = (pthread_mutex_t *)calloc(100000, sizeof *locks);
		pthread_t t[2];

		for (int i = 0; i < 100000; i++)
			MUST(!pthread_mutex_init(&locks[i], NULL));
		for (int i = 0; i < 2; i++)
			t[i] = start(uses_all, locks);
		for (int i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
		for (int i = 0; i < 100000; i++)
			MUST(!pthread_mutex_destroy(&locks[i]));
		free(locks);
	} else if (is(argv, "reuse")) {
		union {
			pthread_mutex_t mutex;
			pthread_rwlock_t rwlock;
			pthread_spinlock_t spin;
		} *u = calloc(1, sizeof *u);

		for (int i = 0; i < 10001; i++) {
			MUST(!pthread_mutex_init(&u->mutex, NULL));
			counted_use(&u->mutex);
			MUST(!pthread_mutex_destroy(&u->mutex));
			MUST(!pthread_rwlock_init(&u->rwlock, NULL));
			MUST(!pthread_rwlock_wrlock(&u->rwlock));
			MUST(!pthread_rwlock_unlock(&u->rwlock));
			MUST(!pthread_rwlock_destroy(&u->rwlock));
			MUST(!pthread_spin_init(&u->spin, 0));
			MUST(!pthread_spin_lock(&u->spin));
			MUST(!pthread_spin_unlock(&u->spin));
			memset(u, 0, sizeof *u);
		}
		free(u);
	} else if (is(argv, "sites")) {
		for (int i = 0; i < 100001; i++) {
			pthread_mutex_t m;

			(i & 1 ? one_site : other_site)(&m);
			counted_use(&m);
			MUST(!pthread_mutex_destroy(&m));
		}
	} else if (is(argv, "copied")) {
		/* A static initialiser, copied about: forbidden by the letter, done by everybody. */
		pthread_mutex_t model = PTHREAD_MUTEX_INITIALIZER, *locks = malloc(1009 * sizeof *locks);

		for (int i = 0; i < 1009; i++) {
			memcpy(&locks[i], &model, sizeof model);
			counted_use(&locks[i]);
		}
		free(locks);
	} else {
		return no_such_way(argv);
	}
	puts("done");
	return 0;
}
