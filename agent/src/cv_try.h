/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Non-blocking acquires. A thread that tries the same lock again and again waits, and burns its
 * processor: the time between failed tries that follow one another closely is its busy time.
 */
#ifndef CV_TRY_H
#define CV_TRY_H

#include "cv_wait.h"

struct cv_try {
	struct cv_thread *t;
	uint64_t obj;
	uint64_t ra;
	enum cv_op op;
	struct cv_entry *detail; /* of a drawn sample */
	uint64_t before_ns;
};

/* Before the try. */
void cv_try_begin_sampled(struct cv_try *y);
static inline void cv_try_begin(struct cv_try *y, struct cv_thread *t, uint64_t obj, uint64_t ra, enum cv_op op)
{
	*y = (struct cv_try){ .t = t, .obj = obj, .ra = ra, .op = op };
	if (cv_unlikely(cv_count(t, obj, ra, op, false)))
		cv_try_begin_sampled(y);
}

/* Did the try before this one fail, at the same object? */
static inline bool cv_try_again(const struct cv_try *y)
{
	return cv_work(y->t)->spin_obj == y->obj;
}

/* After it. `held`: the object is a lock that is held from now on. */
void cv_try_failed(struct cv_try *y);
void cv_try_got_slow(struct cv_try *y, bool held);
static inline void cv_try_got(struct cv_try *y, bool held)
{
	if (held)
		cv_last_set(y->t, y->obj, y->ra);
	if (cv_unlikely(y->detail || cv_try_again(y)))
		cv_try_got_slow(y, held);
}

#endif
