/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The shared arena: where all records live, and how to get room in it.
 *
 * Room is handed out by one atomic add and never taken back. Pages are made writable and
 * populated a step at a time before anybody writes to them, so that a full tmpfs is an error
 * code here and not a SIGBUS in the program, and so that a program that calls mlockall() does
 * not pin address space that is only reserved.
 */
#ifndef CV_ARENA_H
#define CV_ARENA_H

#include "cv_agent.h"

extern struct cv_arena *cv_arena __attribute__((visibility("hidden")));         /* NULL = not recording */
extern struct cv_session cv_session __attribute__((visibility("hidden")));      /* our copy */
/* What convoy calls this process, whose PID namespace may be another one; 0 = by its own number. */
extern uint32_t cv_outside_pid __attribute__((visibility("hidden")));
extern char cv_session_dir[256] __attribute__((visibility("hidden")));

/* Map this process's arena; false = passive. `again`: in a fork child, at the address of the
 * parent's, which it replaces. */
bool cv_arena_open(bool again);

/* Unmap the arena, which no thread uses any more. */
void cv_arena_close(void);

/* A block with room for `payload_bytes`, zeroed, or NULL (counted). Lock-free. */
struct cv_block *cv_block_alloc(enum cv_block_kind kind, size_t payload_bytes, uint32_t item_bytes,
				uint32_t owner);

/* One more item of a kind that all threads share; `*current` is the block being filled. */
void *cv_shared_append(struct cv_block **current, enum cv_block_kind kind, uint32_t item_bytes,
		       uint32_t block_items);

/* Make room for `bytes` more now: later there may be no way to (cv_sandbox.h). */
void cv_arena_prepare(uint64_t bytes);

/* Give back address space beyond what is in use, but for `keep` bytes or a little more. */
void cv_arena_shrink(uint64_t keep);

/* From now on time is asked of the kernel, by a plain system call. */
void cv_clock_without_tsc(void);
uint64_t cv_now_by_kernel(void);

static inline void *cv_payload(struct cv_block *b)
{
	return b + 1;
}

static inline cv_ref cv_ref_of(const void *p)
{
	return (cv_ref)(((uintptr_t)p - (uintptr_t)cv_arena) >> 6);
}

static inline void *cv_at(cv_ref r)
{
	return r ? (char *)cv_arena + ((uintptr_t)r << 6) : NULL;
}

static inline uint64_t cv_ticks(void)
{
#if defined(__x86_64__)
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return lo | (uint64_t)hi << 32;
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#endif
}

static inline uint64_t cv_ticks_to_ns(uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)ticks * cv_session.clock_mult) >> 32);
}

/* CLOCK_MONOTONIC, nanoseconds. */
static inline uint64_t cv_now(void)
{
	if (cv_likely(cv_session.clock_kind == CV_CLOCK_TSC)) {
		uint64_t ticks = cv_ticks();

		/* another processor's counter may read a few ticks before the base */
		if (cv_unlikely(ticks < cv_session.clock_base_ticks))
			ticks = cv_session.clock_base_ticks;
		return cv_session.clock_base_ns + cv_ticks_to_ns(ticks - cv_session.clock_base_ticks);
	}
	return cv_now_by_kernel();
}

#endif
