/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A plugin that uses OpenMP, also in its constructor. */
#include <omp.h>

static omp_lock_t lock;
static int constructed;

int run(void)
{
	int sections = 0, ids = 0;

	omp_init_lock(&lock);
#pragma omp parallel num_threads(3)
	{
#pragma omp critical
		sections += 1;
#pragma omp barrier
		omp_set_lock(&lock);
		ids += omp_get_thread_num() + 1;
		omp_unset_lock(&lock);
#pragma omp critical(named)
		sections += 100;
	}
	return sections * 100 + ids;
}

__attribute__((constructor)) static void construct(void)
{
	constructed = run();
}

int result(void)
{
	return constructed;
}
