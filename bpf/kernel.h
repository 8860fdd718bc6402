/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The few kernel types and constants that the programs use. The loader finds the fields of the structures
 * below by name in the running kernel's BTF (CO-RE), so only names and widths matter here, not the layout.
 */
#ifndef CONVOY_KERNEL_H
#define CONVOY_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What libbpf's headers expect to be declared. */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

/* task_struct.flags */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000
/* Threads that never run code of the program. */
#define PF_OF_KERNEL (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER)

/* task_struct.__state */
#define TASK_UNINTERRUPTIBLE 0x02
#define TASK_NAMED 0xff /* interruptible, uninterruptible, stopped, traced, exiting, parked, dead */

/* The registers of user mode are an ABI and not relocated; newer kernels narrow `cs`, and a relocated load of a
 * narrowed field is refused. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
typedef struct pt_regs bpf_user_pt_regs_t;
#define TS_COMPAT 0x2 /* thread_info.status: in a system call of a 32-bit program */
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	uint64_t regs[31], sp, pc, pstate;
};
typedef struct user_pt_regs bpf_user_pt_regs_t;
#else
#error "no register layout for this architecture"
#endif

struct bpf_perf_event_data {
	bpf_user_pt_regs_t regs;
	uint64_t sample_period;
	uint64_t addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_arm64)
struct pt_regs {
	uint64_t regs[31], sp, pc, pstate, orig_x0;
	int32_t syscallno;
};
#endif

struct mm_struct;

struct thread_info {
	uint32_t status; /* x86 */
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	unsigned in_iowait : 1;
	int pid;
	int tgid;
	struct mm_struct *mm;
	unsigned long nvcsw;
	unsigned long nivcsw;
	char comm[16];
};

struct linux_binprm;

struct bpf_iter_meta;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#endif
