/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events of operations that are no plain acquire or release. Agent rules: ../cv_agent.h. */
#include "../cv_wait.h"
#include "cv_event_file.h"

#include "../cv_banned.h"

void cv_event_always(enum cv_ev ev, enum cv_object_kind kind, uint64_t obj, uint64_t ra, uint64_t argument)
{
	if (cv_event_file)
		cv_event_put_slow(cv_event_now(), ev, &CV_ABOUT(kind, obj, ra), argument);
}

void cv_event_in_window(enum cv_ev ev, enum cv_object_kind kind, uint64_t obj, uint64_t ra, uint64_t argument)
{
	if (cv_event_window())
		cv_event_always(ev, kind, obj, ra, argument);
}

uint64_t cv_event_wake_time(void)
{
	if (!cv_event_window())
		return 0;
	if (cv_event_writer)
		cv_event_writer->woke = 0;
	return cv_event_now();
}

void cv_event_wakes(uint64_t stamp, enum cv_ev ev, enum cv_object_kind kind, uint64_t obj, uint64_t ra)
{
	if (!stamp)
		return;
	cv_event_put_slow(stamp, ev, &CV_ABOUT(kind, obj, ra), 0);
	if (cv_event_writer && cv_event_writer->woke)
		cv_event_put_slow(cv_event_now(), CV_EV_WOKE, &CV_ABOUT(kind, obj, ra), 0);
}

/* ---- waits ---- */

struct wait {
	enum cv_ev begin, end;
};

static struct wait wait_of(enum cv_op op)
{
	switch (op) {
	case CV_OP_RWLOCK_RD:
	case CV_OP_RWLOCK_TIMEDRD:
		return (struct wait){ CV_EV_REQUEST_SHARED, CV_EV_ACQUIRED_AFTER_WAIT };
	case CV_OP_SEM_WAIT:
	case CV_OP_SEM_TIMEDWAIT:
		return (struct wait){ CV_EV_SEM_REQUEST, CV_EV_SEM_ACQUIRED };
	case CV_OP_BARRIER_WAIT:
	case CV_OP_OMP_BARRIER:
		return (struct wait){ CV_EV_BARRIER_ARRIVE, CV_EV_BARRIER_LEAVE };
	case CV_OP_JOIN:
		return (struct wait){ CV_EV_JOIN_BEGIN, CV_EV_JOIN_END };
	case CV_OP_ONCE:
		return (struct wait){ CV_EV_ONCE_BEGIN, CV_EV_ONCE_END };
	case CV_OP_FUTEX_WAIT:
		return (struct wait){ CV_EV_FUTEX_WAIT, CV_EV_FUTEX_WOKEN };
	default:
		return (struct wait){ CV_EV_REQUEST, CV_EV_ACQUIRED_AFTER_WAIT };
	}
}

/* See cv_event_cond_waits(). */
static bool is_cond(enum cv_op op)
{
	return op == CV_OP_COND_WAIT || op == CV_OP_COND_TIMEDWAIT;
}

void cv_event_wait_begins(const struct cv_blocking *b)
{
	if (!is_cond(b->op))
		cv_event_always(wait_of(b->op).begin, b->kind, b->obj, b->ra, 0);
}

/* The thread was off its processor, which nobody need ask about; what CPU time it has used is asked later. */
static void end(enum cv_ev ev, enum cv_object_kind kind, uint64_t obj, uint64_t ra, uint64_t argument)
{
	struct cv_event_writer *w = cv_event_writer;

	if (!cv_event_file)
		return;
	if (w) {
		cv_event_rseq_rearm(w);
		w->attention = 1;
	}
	cv_event_put_slow(cv_event_now_ordered(), ev, &CV_ABOUT(kind, obj, ra), argument);
}

void cv_event_wait_held(const struct cv_blocking *b)
{
	end(wait_of(b->op).end, b->kind, b->obj, b->ra, 0);
	if (cv_event_writer)
		cv_event_writer->waited_for = b->obj;
}

void cv_event_wait_ended(const struct cv_blocking *b, bool timeout)
{
	if (!is_cond(b->op))
		end(timeout ? CV_EV_TIMED_OUT : wait_of(b->op).end, b->kind, b->obj, b->ra, 0);
}

void cv_event_wait_last(const struct cv_blocking *b)
{
	end(CV_EV_BARRIER_LEAVE_LAST, b->kind, b->obj, b->ra, 0);
}

void cv_event_cond_waits(uint64_t cond, uint64_t mutex, uint64_t ra)
{
	cv_event_always(CV_EV_COND_WAIT, CV_OBJECT_COND, cond, ra, mutex);
}

void cv_event_cond_woken(uint64_t cond, uint64_t mutex, uint64_t ra, bool timeout)
{
	if (timeout)
		end(CV_EV_TIMED_OUT, CV_OBJECT_COND, cond, ra, 0);
	end(CV_EV_COND_WOKEN, CV_OBJECT_COND, cond, ra, mutex);
}

/* ---- OpenMP's parallel regions: the barrier at their end ---- */

void cv_event_region_left(void)
{
	struct cv_event_writer *w = cv_event_writer;

	if (!w || !w->region)
		return;
	end(CV_EV_BARRIER_LEAVE, CV_OBJECT_OMP_REGION, w->region, w->region + 1, 0);
	w->region = 0;
}

void cv_event_region_begins(void)
{
	cv_event_region_left();
}

void cv_event_region_ends(uint64_t region)
{
	cv_event_always(CV_EV_BARRIER_ARRIVE, CV_OBJECT_OMP_REGION, region, region + 1, 0);
	if (cv_event_writer)
		cv_event_writer->region = region;
}
