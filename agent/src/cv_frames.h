/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Frames and stacks: code addresses and call stacks, each stored once in the arena and from then on
 * known by a small number.
 *
 * Usable in hooks and in signal handlers that interrupt them: all shared state changes by single
 * compare-and-swaps of whole words, and nothing waits for anybody.
 */
#ifndef CV_FRAMES_H
#define CV_FRAMES_H

#include "cv_arena.h"

/* The id (>= 1) of the frame with this return address, or with CV_FRAME_EXACT this address; 0 = no room
 * (counted). */
uint32_t cv_frame_intern(uint64_t pc, uint32_t flags);

/* The calling thread's stack, from the function that called the agent on; 0 = failed (counted). */
cv_ref cv_stack_capture(void);

/* The same, for a hook that passes its own __builtin_frame_address(0): saves the steps from
 * here to there. The call must not be the hook's last deed (a tail call would end the frame). */
cv_ref cv_stack_capture_from(const void *frame);

/* In a fork child, whose arena is a new one: forget all modules, frames and stacks. */
void cv_frames_reset(void);

/* For cv_modules.c. Modules were found to be gone: their frames must be looked at again before they
 * are used. */
void cv_frames_doubt(void);

/* For cv_modules.c. Some code is gone: known stacks must be unwound again. */
void cv_stacks_doubt(void);

/* For cv_frames.c: see cv_frames_reset. */
void cv_stacks_reset(void);

/* Zero a page-aligned table without touching the pages of it that were never used. */
void cv_forget_pages(void *table, size_t bytes);

#endif
