/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Context switches. */
#include "stack.h"

/* The kernel's state without its modifiers; 0 only if the thread could have gone on. */
static __always_inline uint16_t plain_state(uint32_t state)
{
	uint16_t named = state & TASK_NAMED;

	return !state || named ? named : TASK_UNINTERRUPTIBLE;
}

/* Whether it has not left its memory yet, as one that exits has. To be asked before the ways part: for each way to a
 * load of a pointer the verifier looks for a type among all of the kernel's, by name, which takes it half a millisecond. */
static __always_inline bool owns_memory(const struct task_struct *task)
{
	uint64_t memory = (uint64_t)task->mm;

	asm volatile("" : "+r"(memory));
	return memory;
}

SEC("tp_btf/sched_switch")
int on_switch(uint64_t *ctx)
{
	bool preempted = ctx[0];
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	bool has_memory = owns_memory(prev);
	struct task *out = prev->pid ? task_of(prev) : 0;
	struct task *into = next->pid ? task_of(next) : 0;
	struct call call = {.nr = -1};
	struct cv_bpf_ring *ring;
	struct cv_bpf_event *event;
	uint64_t now;
	uint16_t state = 0;
	uint8_t flags = 0;

	if (!out) {
		if (!into)
			return 0;
		now = bpf_ktime_get_ns();
	} else {
		uint32_t raw = prev->__state;

		now = bpf_ktime_get_ns();
		call.tid = prev->pid;
		/* A task with a signal pending goes on although it meant to block. One that is being woken on
		 * another processor at this moment has a transient state in `__state`. */
		if (raw && config.switch_has_state)
			raw = ctx[3];
		state = preempted ? 0 : plain_state(raw);
		if (!(prev->flags & PF_OF_KERNEL))
			read_call(prev, &call);
		if (BPF_CORE_READ_BITFIELD(prev, in_iowait))
			flags |= CV_BPF_IOWAIT;
		if (state && has_memory) {
			/* Of the registers as they are: the same place may wait for one connection after another. */
			call.key = place_key(&call);
			read_polled(&call);
			if (wants_copy(out, call.key))
				send_stack(ctx, out, &call, now, (state & TASK_UNINTERRUPTIBLE) || call.nr < 0);
		}
	}
	ring = this_ring();
	if (!ring)
		return 0;
	event = next_event(ring, now);
	if (!event)
		return 0;
	event->ts_ns = now;
	event->arg0 = call.arg0;
	event->tid = call.tid;
	event->other = into ? next->pid : 0;
	event->key = call.key;
	event->arg1 = call.arg1;
	event->nr = call.nr;
	event->state = state;
	event->kind = CV_BPF_SWITCH;
	event->flags = flags;
	publish(ring);
	return 0;
}
