/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Threads and processes come and go. A thread is recorded from the moment that it has a struct task: because
 * its maker is, because convoy forks it, or because it belongs to a process that convoy adopts.
 *
 * These programs run with interrupts on, and so use neither the rings nor the scratch space. Where a process begins, or another program in
 * it, convoy is woken up: their names are to be had only soon.
 */
#include "stack.h"

/* Starts recording a thread. Null if another processor was faster, or if there is no memory. */
static __always_inline struct task *start_recording(struct task_struct *task)
{
	struct task *own = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!own) {
		COUNT(lives_lost);
		return 0;
	}
	return __sync_val_compare_and_swap(&own->told, 0, 1) ? 0 : own;
}

static __always_inline struct cv_bpf_life *new_life(uint32_t kind, struct task_struct *task)
{
	struct cv_bpf_life *life = bpf_ringbuf_reserve(&records, sizeof(*life), 0);

	if (!life) {
		COUNT(lives_lost);
		return 0;
	}
	life->ts_ns = bpf_ktime_get_ns();
	life->kind = kind;
	life->tid = task->pid;
	life->tgid = task->tgid;
	life->other = 0;
	return life;
}

static __always_inline bool child_is_wanted(struct task_struct *parent, struct task_struct *child)
{
	struct cv_bpf_control *shared;
	uint32_t tgid = parent->tgid;

	if (task_of(parent))
		return true;
	shared = the_control();
	if (!shared)
		return false;
	/* Neither a thread of convoy's own, nor what another of its threads starts. */
	if (shared->adopt_parent == (uint32_t)parent->pid && child->pid == child->tgid)
		return true;
	return shared->adopting && bpf_map_lookup_elem(&targets, &tgid);
}

SEC("tp_btf/sched_process_fork")
int on_fork(uint64_t *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0];
	struct task_struct *child = (struct task_struct *)ctx[1];
	struct cv_bpf_life *life;

	if (!child_is_wanted(parent, child) || !start_recording(child))
		return 0;
	life = new_life(CV_BPF_FORK, child);
	if (!life)
		return 0;
	life->other = parent->pid;
	bpf_ringbuf_submit(life, child->pid == child->tgid ? ring_bell(life->ts_ns) : BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(uint64_t *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct task *own = task_of(task);
	struct cv_bpf_life *life;

	if (!own)
		return 0;
	/* Another address space: what was known of the old one is void. */
	own->stack_end = 0;
	__builtin_memset(own->known, 0, sizeof(own->known));
	life = new_life(CV_BPF_EXEC, task);
	if (!life)
		return 0;
	life->other = (uint32_t)ctx[1];
	bpf_ringbuf_submit(life, ring_bell(life->ts_ns));
	return 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(uint64_t *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct cv_bpf_life *life;

	if (!task_of(task))
		return 0;
	life = new_life(CV_BPF_EXIT, task);
	if (!life)
		return 0;
	bpf_probe_read_kernel(life->comm, sizeof(life->comm), task->comm);
	bpf_ringbuf_submit(life, BPF_RB_NO_WAKEUP);
	return 0;
}
