/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Copies of user stacks. A copy costs a fraction of walking the stack here, and is right without frame
 * pointers, because convoy unwinds it with the program's call frame information. Only for threads that run on
 * this processor, and with interrupts off.
 */
#ifndef CONVOY_STACK_H
#define CONVOY_STACK_H

#include "ring.h"

#define PAGE 4096ull
/* One stack in so many is copied although its place is known: what is below it may have changed. Of a thread of which
 * so many were copied, fewer are, and go on to tell the paths apart: each event counts for the latest one. */
#define KNOWN_EVERY 8
#define COPIED 128
#define KNOWN_LESS_OFTEN 64
#define COPIED_OFTEN 256
#define KNOWN_SELDOM 256
#define COPIED_ENOUGH 512
#define KNOWN_HARDLY 1024
/* One copy in so many looks anew where the stack ends. */
#define LOOK_AGAIN_EVERY 256

/* Copies from `sp` upwards; the number of bytes. A copy that runs off the end of the mapping copies nothing and
 * costs as much as ten good ones, so the end is learnt once. */
static __noinline uint32_t copy_user(struct task *task, uint8_t *to, uint64_t sp)
{
	uint64_t room = config.stack_bytes;
	uint64_t end = task->stack_end;
	uint64_t bytes = room;

	if (!to)
		return 0;
	if (end > sp && end - sp < room && bpf_get_prandom_u32() % LOOK_AGAIN_EVERY)
		bytes = end - sp;
	if (bytes > CV_BPF_STACK_MAX)
		return 0;
	if (!bpf_probe_read_user(to, bytes, (void *)sp))
		return bytes;

	end = (sp & ~(PAGE - 1)) + PAGE;
	for (int i = 0; i < (int)(CV_BPF_STACK_MAX / PAGE); i++) {
		uint8_t byte;

		if (bpf_probe_read_user(&byte, 1, (void *)end))
			break;
		end += PAGE;
	}
	task->stack_end = end;
	bytes = end - sp;
	if (bytes > room)
		bytes = room;
	if (bytes > CV_BPF_STACK_MAX)
		return 0;
	return bpf_probe_read_user(to, bytes, (void *)sp) ? 0 : bytes;
}

/* A place may be kept in either of two slots, so that two places do not drive each other out for ever. */
static __always_inline bool is_known(const struct task *task, uint32_t key)
{
	return task->known[key % KNOWN_PLACES] == key || task->known[(key >> 8) % KNOWN_PLACES] == key;
}

/* Whether a stack of this place should be sent. The helper that draws numbers costs more than the rest. */
static __always_inline bool wants_copy(struct task *task, uint32_t key)
{
	uint32_t every = KNOWN_HARDLY;

	if (task->copied < COPIED)
		every = KNOWN_EVERY;
	else if (task->copied < COPIED_OFTEN)
		every = KNOWN_LESS_OFTEN;
	else if (task->copied < COPIED_ENOUGH)
		every = KNOWN_SELDOM;
	task->random = task->random * 1664525 + 1013904223;
	return !is_known(task, key) || ((task->random >> 16) & (every - 1)) == 0;
}

/* Takes one copy from this processor's allowance. Half of what can be saved up is for new places. */
static __always_inline bool may_copy(struct cv_bpf_ring *ring, uint64_t now, bool is_new)
{
	uint64_t spent = ring->copies_ns;

	if (spent < now)
		spent = now;
	if (spent - now > (is_new ? config.copy_burst_ns : config.copy_burst_ns / 2))
		return false;
	ring->copies_ns = spent + config.copy_interval_ns;
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < config.keep_free_bytes;
}

static __always_inline struct scratch *filled(uint32_t kind, uint64_t now, const struct call *call)
{
	uint32_t zero = 0;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct cv_bpf_stack *stack;

	if (!scratch)
		return 0;
	stack = &scratch->stack;
	stack->ts_ns = now;
	stack->kind = kind;
	stack->tid = call->tid;
	stack->ip = call->ip;
	stack->sp = call->sp;
	stack->fp = call->fp;
	stack->lr = call->lr;
	stack->arg0 = call->arg0;
	stack->arg1 = call->arg1;
	stack->nr = call->nr;
	stack->key = call->key;
	stack->flags = 0;
	stack->kernel_frames = 0;
	return scratch;
}

/* `bytes` of the stack, behind `before` bytes of something else. */
static __always_inline bool send(struct scratch *scratch, uint32_t before, uint32_t bytes)
{
	uint64_t flags = BPF_RB_NO_WAKEUP;

	if (bytes > CV_BPF_STACK_MAX)
		return false;
	scratch->stack.bytes = bytes;
	if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > config.filling_bytes)
		flags = ring_bell(scratch->stack.ts_ns);
	return !bpf_ringbuf_output(&records, scratch, sizeof(scratch->stack) + before + bytes, flags);
}

/* Sends the stack of a thread at this place unless it is known. `now` may be 0: the clock was not read. */
static __noinline void send_stack(void *ctx, struct task *task, const struct call *call, uint64_t now, bool kernel_too)
{
	struct cv_bpf_ring *ring = this_ring();
	struct scratch *scratch;
	bool is_new;

	if (!ring || !task || !call)
		return;
	if (!now)
		now = bpf_ktime_get_ns();
	is_new = !is_known(task, call->key);
	scratch = may_copy(ring, now, is_new) ? filled(CV_BPF_STACK, now, call) : 0;
	if (scratch) {
		if (kernel_too) {
			long got = bpf_get_stack(ctx, scratch->stack.kernel, sizeof(scratch->stack.kernel), 0);

			scratch->stack.kernel_frames = got > 0 ? got / sizeof(uint64_t) : 0;
		}
		if (send(scratch, 0, copy_user(task, scratch->bytes, call->sp))) {
			if (is_new)
				task->known[(task->random >> 24 & 1 ? call->key >> 8 : call->key) % KNOWN_PLACES] = call->key;
			else if (task->copied < COPIED_ENOUGH)
				task->copied++;
			return;
		}
	}
	if (is_new) /* of another one the last stack will do */
		count_skipped(ring, now);
}

#endif
