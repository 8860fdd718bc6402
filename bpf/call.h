/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a thread was doing when it entered the kernel, from the registers that it left on its kernel stack. */
#ifndef CONVOY_CALL_H
#define CONVOY_CALL_H

#include "convoy_bpf.h"
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

struct call {
	uint64_t ip, sp, fp, lr;
	uint64_t arg0;
	uint32_t arg1;
	int32_t nr;
	uint32_t tid;
	uint32_t key; /* of the place; 0 = not asked for */
};

/* No system call has a number beyond that; those of other ABIs of the processor (x32) do. */
#define NR_END 1024

static __always_inline void read_call(struct task_struct *task, struct call *call)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
	uint64_t nr = regs->orig_ax;

	call->ip = regs->ip;
	call->sp = regs->sp;
	call->fp = regs->bp;
	call->lr = 0;
	call->arg0 = regs->di;
	call->arg1 = regs->si;
	if (task->thread_info.status & TS_COMPAT)
		nr = NR_END;
#else
	uint64_t nr = (int64_t)regs->syscallno;

	call->ip = regs->pc;
	call->sp = regs->sp;
	call->fp = regs->regs[29];
	call->lr = regs->regs[30];
	call->arg0 = regs->orig_x0;
	call->arg1 = regs->regs[1];
#endif
	call->nr = nr < NR_END ? (int32_t)nr : -1;
	if (nr >= NR_END) {
		call->arg0 = 0; /* registers of a computation: not a part of the place */
		call->arg1 = 0;
	}
}

/* read(), write() and pwrite64(); recv() and send(), which are these two with an address or none. */
#if defined(__TARGET_ARCH_x86)
#define NR_READ 0
#define NR_WRITE 1
#define NR_PWRITE 18
#define NR_RECVFROM 45
#define NR_SENDTO 44
#else
#define NR_READ 63
#define NR_WRITE 64
#define NR_PWRITE 68
#define NR_RECVFROM 207
#define NR_SENDTO 206
#endif

/* How much a call reads or writes, in place of the address of it. */
static __always_inline void read_length(struct task_struct *task, struct call *call)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	uint64_t length;

	switch (call->nr) {
	case NR_READ:
	case NR_WRITE:
	case NR_PWRITE:
	case NR_RECVFROM:
	case NR_SENDTO:
		break;
	default:
		return;
	}
#if defined(__TARGET_ARCH_x86)
	length = regs->dx;
#else
	length = regs->regs[2];
#endif
	call->arg1 = length < UINT32_MAX ? length : UINT32_MAX;
}

/* poll(), ppoll(). */
#if defined(__TARGET_ARCH_x86)
#define NR_POLL 7
#define NR_PPOLL 271
#else
#define NR_POLL -2 /* there is none */
#define NR_PPOLL 73
#endif

/* The descriptor that a thread waits for in poll(), in place of the address where it is, if it is one. Only for the
 * thread whose memory this processor uses. */
static __always_inline void read_polled(struct call *call)
{
	int32_t fd;

	if ((call->nr != NR_POLL && call->nr != NR_PPOLL) || call->arg1 != 1)
		return;
	if (bpf_probe_read_user(&fd, sizeof(fd), (void *)call->arg0)) /* the first field of struct pollfd */
		return;
	call->arg0 = (uint32_t)fd;
	call->arg1 = CV_BPF_POLLS_ONE;
}

/* A frame is smaller than that: what lies further up, or below, is a value that code without frame pointers keeps in
 * the register. A loop's counter would make every turn another place. */
#define FRAME_END (1ull << 20)

/* The name of the place: the same call at the same depth by the same instruction. */
static __always_inline uint32_t place_key(const struct call *call)
{
	uint64_t fp = call->fp - call->sp < FRAME_END ? call->fp : 0;
	/* Products with odd constants, which the processor computes side by side. */
	uint64_t hash = (call->ip ^ ((uint64_t)call->nr << 52)) * 0x9e3779b97f4a7c15ull;
	uint32_t key;

	hash ^= call->sp * 0xc2b2ae3d27d4eb4full;
	hash += fp * 0x165667b19e3779f9ull;
	hash ^= call->arg0 * 0xd6e8feb86659fd93ull;
	key = (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15ull >> 32;
	return key ? key : 1;
}

#endif
