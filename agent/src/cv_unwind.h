/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Unwinding: who called whom, by call frame information, so that it is right in code without frame
 * pointers.
 *
 * Two walkers. The quick one knows the two registers that nearly every frame needs (stack and
 * frame pointer) and remembers what it has learnt of a code address as a rule of 31 bits: some ns a
 * frame. Where a rule does not fit in that, the full one starts over with all registers and
 * evaluates everything anew: about a microsecond a frame.
 *
 * Every read of the program's stack is checked first: against the thread's known stack, or, on a
 * stack of the program's own making (coroutine, signal stack), page by page with the kernel.
 */
#ifndef CV_UNWIND_H
#define CV_UNWIND_H

#include "cv_arena.h"

/* The calling thread's stack as the rest of the agent knows it (cv_stack_lo and cv_stack_hi, in
 * cv_thread.c): [lo, hi), or both 0. */
void cv_stack_bounds(uint64_t *lo, uint64_t *hi);

enum cv_end {
	CV_END_LAST,    /* the outermost frame, by its rule */
	CV_END_DEPTH,   /* as many frames as asked for */
	CV_END_BOUNDS,  /* the next frame is not on the stack */
	CV_END_NO_RULE, /* nothing is known of the last frame's caller */
};

#define CV_READS 60

struct cv_trace {
	uint32_t n;
	uint32_t max;    /* frames wanted, at most CV_STACK_MAX */
	enum cv_end end;
	uint64_t skip_lo, skip_hi; /* frames to leave out: the agent's own */
	/* The stack words that decided the outcome, in order of reading: as long as they are the
	 * same, so is the trace of the same frame. */
	bool replayable;
	uint32_t reads;
	uint32_t at[CV_READS]; /* bytes above the frame */
	uint64_t word[CV_READS];
	uint64_t pc[CV_STACK_MAX];   /* leaf first */
	uint8_t flags[CV_STACK_MAX]; /* CV_FRAME_EXACT, CV_FRAME_NO_RULE: the next frame is a guess */
};

/* The callers of the function whose __builtin_frame_address(0) is `frame`. The function must be on the
 * calling thread's stack, above the caller of this. Set max, skip_lo and skip_hi before. */
void cv_unwind(const void *frame, struct cv_trace *t);

/* Is [addr, addr + 8) of the calling process readable? Asks the kernel: ~100 ns. */
bool cv_readable(uint64_t addr);

/* Code has been unmapped: other code may come to lie at its addresses. */
void cv_rules_forget(void);

#endif
