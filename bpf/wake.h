/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Wake-ups. sched_waking runs where the waker is, but before the wakee has always left its processor;
 * sched_wakeup runs when it becomes runnable, but perhaps on another processor. So the first notes the
 * waker, and the second tells the wake-up.
 */
#include "stack.h"

static __always_inline void note_waker(void *ctx, struct task *wakee)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct call call = {.nr = -1};
	uint16_t flags = CV_BPF_WAKER;

	if (waker->flags & PF_OF_KERNEL) {
		flags |= CV_BPF_KERNEL;
	} else {
		read_call(waker, &call);
		if (call.nr >= 0 && waker->mm) { /* otherwise an interrupt wakes, and this thread is only there */
			struct task *task = task_of(waker);

			if (task) {
				call.tid = waker->pid;
				call.key = place_key(&call);
				if (wants_copy(task, call.key))
					send_stack(ctx, task, &call, 0, false);
			}
		}
	}
	wakee->waker_tid = waker->pid;
	wakee->waker_key = call.key;
	wakee->waker_arg0 = call.arg0;
	wakee->waker_arg1 = call.arg1;
	wakee->waker_nr = call.nr;
	wakee->waker_flags = flags;
	wakee->has_waker = 1;
}

static __always_inline void tell_wakeup(struct task *wakee, uint32_t tid)
{
	struct cv_bpf_ring *ring = this_ring();
	uint64_t now = bpf_ktime_get_ns();
	struct cv_bpf_event *event;

	if (!ring)
		return;
	event = next_event(ring, now);
	if (!event)
		return;
	event->ts_ns = now;
	event->tid = tid;
	event->kind = CV_BPF_WAKEUP;
	event->state = 0;
	event->other = wakee->waker_tid;
	event->key = wakee->waker_key;
	event->arg0 = wakee->waker_arg0;
	event->arg1 = wakee->waker_arg1;
	event->nr = wakee->waker_nr;
	event->flags = wakee->has_waker ? wakee->waker_flags : 0;
	wakee->has_waker = 0;
	publish(ring);
}

SEC("tp_btf/sched_waking")
int on_waking(uint64_t *ctx)
{
	struct task *wakee = task_of((struct task_struct *)ctx[0]);

	if (wakee)
		note_waker(ctx, wakee);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int on_wakeup(uint64_t *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct task *wakee = task_of(task);

	if (wakee)
		tell_wakeup(wakee, task->pid);
	return 0;
}

/* The first one of a new thread: its maker wakes it. */
SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(uint64_t *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct task *wakee = task_of(task);

	if (!wakee)
		return 0;
	note_waker(ctx, wakee);
	tell_wakeup(wakee, task->pid);
	return 0;
}
