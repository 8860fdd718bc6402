/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads: their records, from creation to the last destructor. */
#ifndef CV_THREAD_H
#define CV_THREAD_H

#include "cv_arena.h"

/* Once per process image. `late`: threads run already. */
bool cv_threads_init(bool late);
void cv_threads_reset(void);      /* in a fork child: only the calling thread is left */

/* This thread's record, made now if it has none (threads that no hook saw being created). NULL after its
 * last destructor, or when there is no room. */
struct cv_thread *cv_thread_register(void);

/* The living thread with this tid, or NULL. A guess that may be out of date: verify what you read. */
struct cv_thread *cv_thread_by_tid(uint32_t tid);

/* The calling thread goes on unrecorded. */
void cv_thread_abandon(void);

/* Note CPU time and switches of every living thread: the process is about to end or to exec. */
void cv_threads_snapshot(void);

/* One past the highest, and the lowest, stack address of the calling thread, 0 = unknown. For the
 * unwinder. */
uint64_t cv_stack_hi(void);
uint64_t cv_stack_lo(void);

/* The calling thread, registered if need be, or NULL: the operation goes on unrecorded. */
static inline struct cv_thread *cv_thread(void)
{
	struct cv_thread *t = cv_self;

	if (cv_likely(t != NULL))
		return t;
	return cv_arena ? cv_thread_register() : NULL;
}

#endif
