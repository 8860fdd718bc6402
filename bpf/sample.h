/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The sampler: where threads are that use the processors. Runs in a timer interrupt of each processor. */
#include "stack.h"

#if defined(__TARGET_ARCH_x86)
static __always_inline bool in_user_mode(struct bpf_perf_event_data *ctx, struct call *call)
{
	uint64_t cs = ctx->regs.cs, flags = ctx->regs.flags;

	__asm__ volatile("" : "+r"(cs), "+r"(flags)); /* or the compiler loads a part, which is refused */
	call->ip = ctx->regs.ip;
	call->sp = ctx->regs.sp;
	call->fp = ctx->regs.bp;
	call->arg0 = ctx->regs.ax; /* what the instruction before left: whether a try at a lock failed */
	call->arg1 = flags;
	return cs & 3;
}
#else
static __always_inline bool in_user_mode(struct bpf_perf_event_data *ctx, struct call *call)
{
	uint64_t pstate = ctx->regs.pstate;

	call->ip = ctx->regs.pc;
	call->sp = ctx->regs.sp;
	call->fp = ctx->regs.regs[29];
	call->lr = ctx->regs.regs[30];
	return !(pstate & 0xf);
}
#endif

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task *task = task_of(current);
	struct cv_bpf_ring *ring;
	struct scratch *scratch;
	struct call call = {.nr = -1};
	uint64_t now;
	bool user;

	if (!task || !current->mm)
		return 0;
	now = bpf_ktime_get_ns();
	user = in_user_mode(ctx, &call);
	if (!user)
		read_call(current, &call);
	call.tid = current->pid;
	scratch = filled(CV_BPF_SAMPLE, now, &call);
	if (!scratch)
		return 0;
	scratch->stack.flags = user ? 0 : CV_BPF_KERNEL;
	if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < config.keep_free_bytes &&
	    send(scratch, copy_user(task, scratch->bytes, call.sp)))
		return 0;
	ring = this_ring();
	if (ring)
		count_skipped(ring, now);
	return 0;
}
