/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The sampler: where threads are that use the processors. Runs in a timer interrupt of each processor. In user mode the
 * registers are sent as well: with the instruction they tell which memory it touches.
 */
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

/* In the order in which instructions number them. */
static __always_inline uint32_t copy_registers(struct bpf_perf_event_data *ctx, struct scratch *scratch)
{
	struct cv_bpf_registers *registers = (struct cv_bpf_registers *)scratch->bytes;
	uint64_t *general = registers->general;

	general[0] = ctx->regs.ax;
	general[1] = ctx->regs.cx;
	general[2] = ctx->regs.dx;
	general[3] = ctx->regs.bx;
	general[4] = ctx->regs.sp;
	general[5] = ctx->regs.bp;
	general[6] = ctx->regs.si;
	general[7] = ctx->regs.di;
	general[8] = ctx->regs.r8;
	general[9] = ctx->regs.r9;
	general[10] = ctx->regs.r10;
	general[11] = ctx->regs.r11;
	general[12] = ctx->regs.r12;
	general[13] = ctx->regs.r13;
	general[14] = ctx->regs.r14;
	general[15] = ctx->regs.r15;
	/* Zeroes where nothing is mapped yet. */
	bpf_probe_read_user(registers->red_zone, CV_BPF_RED_ZONE, (void *)(ctx->regs.sp - CV_BPF_RED_ZONE));
	scratch->stack.flags |= CV_BPF_HAS_REGISTERS;
	return sizeof(struct cv_bpf_registers);
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

/* Nobody decodes the instructions that they are for. */
static __always_inline uint32_t copy_registers(struct bpf_perf_event_data *ctx, struct scratch *scratch)
{
	return 0;
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
	if (!user) {
		read_call(current, &call);
		read_length(current, &call);
	}
	call.tid = current->pid;
	scratch = filled(CV_BPF_SAMPLE, now, &call);
	if (!scratch)
		return 0;
	scratch->stack.flags = user ? 0 : CV_BPF_KERNEL;
	if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) < config.keep_free_bytes) {
		bool sent;

		if (user) {
			uint32_t before = copy_registers(ctx, scratch);

			sent = send(scratch, before, copy_user(task, scratch->bytes + before, call.sp));
		} else {
			sent = send(scratch, 0, copy_user(task, scratch->bytes, call.sp));
		}
		if (sent)
			return 0;
	}
	ring = this_ring();
	if (ring)
		count_skipped(ring, now);
	return 0;
}
