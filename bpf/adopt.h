/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Threads that are there already. Every pass over the tasks of the system starts recording those of the listed
 * processes that are not recorded yet. A thread that is made meanwhile is found by its fork (life.h) or
 * by a pass, whichever is first, and told once.
 */
#include "stack.h"

/* A thread on its way from or to a processor is looked at again so often: that takes nanoseconds. */
#define LOOKS 64

/* Registers and states of one moment. */
static __always_inline void look(struct task_struct *task, struct cv_bpf_init *init)
{
	struct call call = {.nr = -1};
	uint32_t state = 0, on_cpu = 0;

	for (int i = 0; i < LOOKS; i++) {
		uint64_t switches = task->nvcsw + task->nivcsw;

		init->ts_ns = bpf_ktime_get_ns();
		state = *(volatile uint32_t *)&task->__state;
		on_cpu = *(volatile int *)&task->on_cpu;
		if (on_cpu && state)
			continue;
		read_call(task, &call);
		if (switches == *(volatile unsigned long *)&task->nvcsw + *(volatile unsigned long *)&task->nivcsw)
			break;
	}
	init->flags = on_cpu ? CV_BPF_ON_CPU : 0;
	init->state = 0;
	if (!state || on_cpu)
		return;
	init->flags = CV_BPF_OFF;
	init->state = plain_state(state);
	init->ip = call.ip;
	init->sp = call.sp;
	init->fp = call.fp;
	init->lr = call.lr;
	init->arg0 = call.arg0;
	init->arg1 = call.arg1;
	init->nr = call.nr;
	init->key = place_key(&call);
}

SEC("iter/task")
int on_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct cv_bpf_init init = {.kind = CV_BPF_INIT, .nr = -1};
	uint32_t tgid;

	if (!task)
		return 0;
	tgid = task->tgid;
	if ((task->flags & PF_OF_KERNEL) || !task->mm || !bpf_map_lookup_elem(&targets, &tgid))
		return 0;
	if (task_of(task) || !start_recording(task))
		return 0;
	COUNT(adopted);
	init.tid = task->pid;
	init.tgid = tgid;
	bpf_probe_read_kernel(init.comm, sizeof(init.comm), task->comm);
	look(task, &init);
	if (bpf_ringbuf_output(&records, &init, sizeof(init), BPF_RB_NO_WAKEUP))
		COUNT(lives_lost);
	return 0;
}
