/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Critical sections as the subject: code between two operations is lengthened by what it took.
 *
 * The length of code is CPU time: a thread that waits for a processor or a lock runs nothing that
 * could be lengthened. Kernel time of the program's own system calls is part of it; that of a wait
 * is not, since the hook around it ends one stretch of code and begins another. Agent rules:
 * ../cv_agent.h.
 */
#include "../cv_sandbox.h"
#include "cv_causal.h"

#include "../cv_banned.h"

/* The time left is looked at once in so many hooks: that costs as much as the hook. */
#define HOOKS_UNLOOKED 64u

/* Smaller debts wait for others: a spin is at least one reading of the cycle counter long. */
#define SMALLEST_SPIN_NS 100u

static bool is_subject(const struct cv_causal_control *c, uint64_t object)
{
	return cv_causal_lock_number(c, object) >= 0;
}

/* Whether a thread in this state runs what is to be lengthened. */
static bool is_lengthened(const struct cv_causal_control *c, const struct cv_causal_work *w)
{
	switch (c->estimator) {
	case CV_CAUSAL_DILATE:
		return !w->inside;
	case CV_CAUSAL_SLOW:
		return w->inside;
	default:
		return false;
	}
}

/* True = the thread has noticed this window before. */
static bool is_noticed(struct cv_causal_work *w, uint32_t window)
{
	if (cv_likely(w->window == window))
		return true;
	w->window = window;
	w->inside = 0; /* what it holds by now is not known: from the next operation on it is */
	w->debt_ns = 0;
	return false;
}

void cv_causal_code_ran(struct cv_causal_thread *t)
{
	const struct cv_causal_control *c = cv_causal_control();
	struct cv_causal_work *w = cv_causal_work(t);
	uint64_t now = cv_causal_cpu_ns(t);

	if (is_noticed(w, c->window) && is_lengthened(c, w) && now > w->mark_ns) {
		w->debt_ns += ((now - w->mark_ns) * c->factor) >> 16;
		if (w->debt_ns >= SMALLEST_SPIN_NS) {
			cv_causal_spin(t, w->debt_ns);
			w->debt_ns = 0;
			now = cv_causal_cpu_ns(t);
		}
	}
	w->mark_ns = now;
}

static struct cv_causal_thread *measured(void)
{
	bool measures = cv_causal_control()->mechanism == CV_CAUSAL_MEASURED;

	return measures && !cv_is_quiet() ? cv_causal_self : NULL;
}

/* From here to the end of the operation a sample keeps out. */
void cv_causal_enter_slow(void)
{
	struct cv_causal_thread *t = cv_causal_self;

	if (!t || cv_is_quiet())
		return;
	cv_causal_sampling_arm(t);
	if (cv_causal_work(t)->hooks++ % HOOKS_UNLOOKED == 0 && !cv_causal_left())
		return;
	t = measured();
	if (!t)
		return;
	cv_causal_work(t)->hooked = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cv_causal_code_ran(t);
}

/* Behind the call; NULL = nothing is measured. `took_ns`: its CPU time, 0 = not known. */
static struct cv_causal_work *returned(uint64_t *took_ns)
{
	struct cv_causal_thread *t = measured();
	struct cv_causal_work *w;
	uint64_t now;

	if (!t)
		return NULL;
	w = cv_causal_work(t);
	now = cv_causal_cpu_ns(t);
	*took_ns = is_noticed(w, cv_causal_window()) && w->hooked && now > w->mark_ns ? now - w->mark_ns : 0;
	w->mark_ns = now;
	return w;
}

/* Samples are welcome again. */
static void goes_on(struct cv_causal_work *w)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	w->hooked = 0;
}

void cv_causal_leave_slow(void)
{
	uint64_t took_ns;
	struct cv_causal_work *w = returned(&took_ns);

	if (w)
		goes_on(w);
}

void cv_causal_acquired_slow(uint64_t object)
{
	uint64_t took_ns;
	struct cv_causal_work *w = returned(&took_ns);

	if (!w)
		return;
	if (is_subject(cv_causal_control(), object))
		w->inside++;
	goes_on(w);
}

void cv_causal_released_slow(uint64_t object)
{
	struct cv_causal_thread *t = cv_causal_self;
	uint64_t took_ns;
	struct cv_causal_work *w = returned(&took_ns);

	if (!w)
		return;
	__atomic_store_n(&t->calls_ns, t->calls_ns + took_ns, __ATOMIC_RELAXED);
	if (is_subject(cv_causal_control(), object) && w->inside)
		w->inside--;
	goes_on(w);
}
