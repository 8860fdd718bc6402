/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the quick and the full unwinder have in common. */
#ifndef CV_WALK_H
#define CV_WALK_H

#include "cv_unwind.h"

struct cv_walk {
	struct cv_trace *t;
	uint64_t frame; /* the trace's start */
	uint64_t pc;
	uint64_t sp;
	bool exact;     /* pc is an instruction's own address */
	/* stack words in [lo, hi) may be read; others above `floor` after asking */
	uint64_t lo, hi;
	uint64_t floor;
	uint64_t stack_lo, stack_hi;
};

/* A leaf function keeps data below its stack pointer. */
#define CV_RED_ZONE 128

/* Start, or go on after a signal frame, at this stack pointer. */
void cv_walk_at(struct cv_walk *w, uint64_t sp);

/* Make [addr, addr + 8) part of the readable window. */
bool cv_walk_extend(struct cv_walk *w, uint64_t addr);

static inline bool cv_walk_read(struct cv_walk *w, uint64_t addr, uint64_t *value)
{
	if (cv_unlikely(addr & 7))
		return false;
	if (cv_unlikely(addr < w->lo || addr > w->hi - 8) && !cv_walk_extend(w, addr))
		return false;
	*value = *(const volatile uint64_t *)addr;
	return true;
}

/* Note the current frame; false: the trace is complete. */
static inline bool cv_walk_keep(struct cv_walk *w)
{
	struct cv_trace *t = w->t;

	if (w->pc >= t->skip_lo && w->pc < t->skip_hi)
		return true;
	if (cv_unlikely(t->n == t->max)) {
		t->end = CV_END_DEPTH;
		return false;
	}
	t->pc[t->n] = w->pc;
	t->flags[t->n++] = w->exact ? CV_FRAME_EXACT : 0;
	return true;
}

/* The address whose rule applies: a return address may be the first of the next function. */
static inline uint64_t cv_walk_at_pc(const struct cv_walk *w)
{
	return w->exact ? w->pc : w->pc - 1;
}

/* Unwind with all registers. */
void cv_unwind_full(const void *frame, struct cv_trace *t);

/* A step by the frame pointer, for code that has no rule. The result is a guess: the frame is flagged.
 * False: nothing plausible there. */
bool cv_walk_guess(struct cv_walk *w, uint64_t *bp);

/* Does the code at `pc` return from a signal handler? For C libraries that do not say so in
 * .eh_frame. */
bool cv_is_sigreturn(uint64_t pc);

/* Offsets from the stack pointer in a signal frame (ucontext_t, x86-64): saved registers. */
#define CV_SIGFRAME_R8 40
#define CV_SIGFRAME_RBP 120
#define CV_SIGFRAME_RBX 128
#define CV_SIGFRAME_RSP 160
#define CV_SIGFRAME_RIP 168

#endif
