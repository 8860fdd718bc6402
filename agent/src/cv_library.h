/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The OpenMP library behind our hooks. There may be several in a process (Python extensions bring their own,
 * each visible to its owner only), so that dlsym(RTLD_NEXT) does not find them, and every caller must get
 * the one that it would be bound to without us: half of a library's functions are not hooked.
 */
#ifndef CV_LIBRARY_H
#define CV_LIBRARY_H

#include "cv_real.h"

#define CV_OMP_FIRST CV_REAL_GOMP_parallel
#define CV_OMP_COUNT (CV_REAL_COUNT - CV_OMP_FIRST)

struct cv_library {
	uint64_t lo, hi; /* callers: the mapping of one object, or everything */
	void *function[CV_OMP_COUNT];
};

/* The library of the code at `caller`; made in *room if there is no place to keep it. A function that
 * it lacks does nothing, and GOMP_parallel runs its body once. */
const struct cv_library *cv_library_of(uint64_t caller, struct cv_library *room);

/* Once, at start: the objects loaded by now are visible to all others. */
void cv_libraries_init(void);

/* After a dlclose: forget the callers that are gone. */
void cv_libraries_unloaded(void);

#define cv_library_call(library, name) ((cv_type_##name)(library)->function[CV_REAL_##name - CV_OMP_FIRST])

#endif
