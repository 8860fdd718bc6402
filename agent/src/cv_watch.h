/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Which of the locks that convoy watches a thread holds: function probes count calls "while it
 * holds the lock" by it (`convoy live`, focus `holding`).
 *
 * Convoy writes the addresses into the arena's header. Nothing is watched as a rule, and that is
 * one load and one branch of an operation.
 */
#ifndef CV_WATCH_H
#define CV_WATCH_H

#include "cv_arena.h"

/* Initial-exec: at the same distance from the thread pointer in every thread, also for probes. */
extern __thread struct cv_holding cv_holding __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Of a thread's counts, from its thread pointer; 0: this build does not count. */
int64_t cv_watch_offset(void);

/* An acquisition (more) or a release of a lock. */
void cv_watch_changed(uint64_t object, bool more);

static inline bool cv_watching(void)
{
	const struct cv_arena *a = cv_arena;

	return a && __atomic_load_n(&a->watch_epoch, __ATOMIC_RELAXED);
}

static inline void cv_watch_acquired(uint64_t object)
{
	if (cv_unlikely(cv_watching()))
		cv_watch_changed(object, true);
}

static inline void cv_watch_released(uint64_t object)
{
	if (cv_unlikely(cv_watching()))
		cv_watch_changed(object, false);
}

#endif
