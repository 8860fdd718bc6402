/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. */
#include "cv_try.h"

#include "cv_frames.h"

#include "cv_banned.h"

/* Failed tries further apart than this are not a loop that waits. */
#define SPIN_GAP_NS 20000u
/* The clock costs as much as a failed try. A loop that yields after so many tries would yield later for it. */
#define CLOCK_EVERY 8

void cv_try_begin_sampled(struct cv_try *y)
{
	int saved = errno;

	y->detail = cv_sample(y->t, y->obj, y->op);
	y->before_ns = cv_now();
	errno = saved;
}

/* Write down how long the thread spun. Only while it does not hold what it spun for. */
static void spin_flush(struct cv_thread *t)
{
	struct cv_work *w = cv_work(t);
	struct cv_entry *e = cv_at(w->spin_detail);
	struct cv_wait_detail *d;

	if (e && w->spin_busy_ns && cv_enter(t)) {
		d = cv_detail_wait(t, e);
		if (d)
			d->busy_sum_ns += w->spin_busy_ns;
		cv_leave(t);
	}
	w->spin_busy_ns = 0;
	w->spin_detail = 0;
	w->spin_obj = 0;
}

/* Counts the time since the clock was read last, unless the tries since then were too far apart. */
static void spin_on(struct cv_work *w, uint64_t now)
{
	if (now - w->spin_last_ns < (uint64_t)SPIN_GAP_NS * (w->spin_tries + 1))
		w->spin_busy_ns += now - w->spin_last_ns;
}

void cv_try_failed(struct cv_try *y)
{
	struct cv_thread *t = y->t;
	struct cv_work *w = cv_work(t);
	bool again = w->spin_obj == y->obj;
	uint64_t now;
	int saved = errno;

	cv_count_failed(t, y->obj, y->ra, y->op);
	if (again && w->spin_tries + 1 < CLOCK_EVERY) {
		w->spin_tries++;
		errno = saved;
		return;
	}
	now = cv_now();
	if (again) {
		spin_on(w, now);
	} else {
		spin_flush(t);
		if (cv_enter(t)) {
			struct cv_entry *e = cv_detail_get(t, y->obj, cv_stack_capture(), y->op);

			w->spin_detail = e ? cv_ref_of(e) : 0;
			cv_leave(t);
		}
		w->spin_obj = y->obj;
	}
	w->spin_last_ns = now;
	w->spin_tries = 0;
	errno = saved;
}

void cv_try_got_slow(struct cv_try *y, bool held)
{
	struct cv_thread *t = y->t;
	struct cv_work *w = cv_work(t);
	uint64_t now = cv_now();

	if (w->spin_obj == y->obj) {
		spin_on(w, now);
		if (held) { /* written down after the release, see cv_hold_commit */
			cv_hold_spun(t, y->obj, y->op, cv_at(w->spin_detail), now, w->spin_busy_ns);
			w->spin_busy_ns = 0;
			w->spin_obj = 0;
		} else {
			spin_flush(t);
		}
	} else if (y->detail && held) {
		cv_hold_sampled(t, y->obj, y->op, y->detail, now, (uint32_t)(now - y->before_ns));
	}
}
