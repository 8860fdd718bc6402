/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A thread that has to wait, and what it holds afterwards. The three parts that every blocking hook
 * is made of. */
#ifndef CV_WAIT_H
#define CV_WAIT_H

#include "cv_object.h"
#include "cv_table.h"
#include "cv_thread.h"

struct cv_blocking {
	struct cv_thread *t;
	struct cv_object *object;
	struct cv_entry *detail;
	struct cv_wait_detail *wait;
	struct cv_peer peer;
	uint64_t obj;
	uint64_t ra; /* call site of the hook */
	uint64_t since_ns;
	enum cv_object_kind kind;
	enum cv_op op;
	uint64_t waker_ns; /* the object's last wake before this wait */
};

/* Before blocking on obj, as called from ra: takes the call stack, notes who holds it and marks the thread as waiting.
 * `owner`: where the holder's tid can be read, NULL = nowhere. */
void cv_block_begin(struct cv_blocking *b, struct cv_thread *t, uint64_t obj, uint64_t ra,
		    enum cv_object_kind kind, enum cv_op op, const void *owner);

/* The wait is over. Returns its length, ns. Only clock reads and stores. */
uint64_t cv_block_end(struct cv_blocking *b);

/* Record a wait at once: for objects that are not held afterwards, and for waits that failed. */
void cv_block_commit(struct cv_blocking *b, uint64_t wait_ns, bool timeout);

/* The wait ended with the lock: it is held from now on; the record is made at its release. */
void cv_block_held(struct cv_blocking *b, uint64_t wait_ns);

/* The wait ended (or timed out) while `mutex` was taken again, as pthread_cond_wait does: recorded when
 * the mutex is released. */
void cv_block_deferred(struct cv_blocking *b, uint64_t wait_ns, bool timeout, uint64_t mutex);

/* The thread ends inside a wait (cancellation): record what there is of it. */
void cv_block_abandoned(struct cv_thread *t);

/* A sampled acquisition that did not wait is held from now on. */
void cv_hold_sampled(struct cv_thread *t, uint64_t obj, enum cv_op op, struct cv_entry *detail, uint64_t acquired_ns,
		     uint32_t acquire_ns);

/* The same after a run of failed tries, which took spun_ns. */
void cv_hold_spun(struct cv_thread *t, uint64_t obj, enum cv_op op, struct cv_entry *detail, uint64_t acquired_ns,
		  uint64_t spun_ns);

/* obj is about to be released: note the time. True if there is something to commit. */
static inline bool cv_hold_any(const struct cv_thread *t)
{
	return t && t->held_count != 0;
}
bool cv_hold_release(struct cv_thread *t, uint64_t obj);

/* obj has been released: record what was noted. */
void cv_hold_commit(struct cv_thread *t, uint64_t obj);

/* obj was released by somebody else, or is gone: of its hold only the wait before it is recorded. */
void cv_hold_forget(struct cv_thread *t, uint64_t obj);

/* DETAIL entry of the calling stack for a drawn sample; NULL if the tables are busy or full. Counts the
 * sample. */
struct cv_entry *cv_sample(struct cv_thread *t, uint64_t obj, enum cv_op op);

#endif
