/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sleeps, as a subject and as what is lengthened beside it.
 *
 * The program's own sleep is made as it asks for it. One that has run its full length is followed
 * by a second one, of the additional time: what the caller sees of interruptions and remaining time
 * is the first. Sleeps until a point in time are deadlines, and left alone. Agent rules:
 * ../cv_agent.h.
 */
#include <sys/syscall.h>
#include <time.h>

#include "../cv_real.h"
#include "../cv_sandbox.h"
#include "cv_causal.h"

#include "../cv_banned.h"

/* The kernel wakes a sleeper this late at most, if a processor is free (timer slack and
 * wake-up). */
#define LATE_MOST_NS 200000u

static bool is_lengthened(const struct cv_causal_control *c, const struct cv_causal_work *w)
{
	bool is_subject = c->subject & CV_CAUSAL_SLEEP || (c->subject & CV_CAUSAL_LOCK && w->inside) ||
			  (c->subject & CV_CAUSAL_GROUP && cv_causal_self->groups & c->groups);

	return c->estimator == (is_subject ? CV_CAUSAL_SLOW : CV_CAUSAL_DILATE);
}

/* So long after the end of its window an additional sleep ends. */
#define SLICE_NS 5000000u

static bool sleep_until(uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	return cv_syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)&ts, 0, 0, 0) == 0;
}

/* Ends with the window, and with a signal of the program's. */
static void sleep_in_window(uint64_t ns)
{
	uint32_t window = cv_causal_window();
	uint64_t now = cv_now(), left = cv_causal_left(), end = now + (ns < left ? ns : left);

	for (; now < end && cv_causal_window() == window; now = cv_now())
		if (!sleep_until(now + SLICE_NS < end ? now + SLICE_NS : end))
			return;
}

/* A sleep of `wanted` ns has taken `took`: both it and its lateness are lengthened. */
static void sleep_more(uint64_t wanted, uint64_t took)
{
	const struct cv_causal_control *c = cv_causal_control();
	uint64_t late = took > wanted ? took - wanted : 0, more;

	if (!cv_causal_self || cv_is_quiet())
		return;
	cv_causal_self->sleeps++;
	if (!cv_causal_window() || !is_lengthened(c, cv_causal_work(cv_causal_self)))
		return;
	if (late > LATE_MOST_NS)
		late = LATE_MOST_NS; /* it waited for a processor */
	more = ((wanted + late) * c->factor) >> 16;
	if (more <= late)
		return; /* the second sleep would be late by as much */
	sleep_in_window(more - late);
}

static uint64_t ns_of(const struct timespec *ts)
{
	return ts->tv_sec < 0 || ts->tv_sec > 1000000 ? 0 : (uint64_t)ts->tv_sec * 1000000000u + (uint64_t)ts->tv_nsec;
}

#define SLEEP(wanted, completed, call)                                \
	({                                                            \
		uint64_t wanted_ = (wanted);                          \
		uint64_t from_;                                       \
		__typeof__(call) r_;                                  \
		cv_causal_enter();                                    \
		from_ = cv_now();                                     \
		r_ = (call);                                          \
		if (completed) {                                      \
			int saved_ = errno;                           \
			sleep_more(wanted_, cv_now() - from_);        \
			errno = saved_;                               \
		}                                                     \
		cv_causal_leave();                                    \
		r_;                                                   \
	})

CV_EXPORT int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	return SLEEP(wanted ? ns_of(wanted) : 0, r_ == 0, cv_real(nanosleep)(wanted, left));
}

CV_EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left)
{
	if (flags & TIMER_ABSTIME)
		return cv_real(clock_nanosleep)(clock, flags, wanted, left);
	return SLEEP(wanted ? ns_of(wanted) : 0, r_ == 0, cv_real(clock_nanosleep)(clock, flags, wanted, left));
}

CV_EXPORT int usleep(unsigned us)
{
	return SLEEP((uint64_t)us * 1000u, r_ == 0, cv_real(usleep)(us));
}

CV_EXPORT unsigned sleep(unsigned s)
{
	return SLEEP((uint64_t)s * 1000000000u, r_ == 0, cv_real(sleep)(s));
}
