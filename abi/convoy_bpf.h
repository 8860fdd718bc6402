/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The layouts that the BPF programs (bpf/) and convoy share. Both come out of one build and are never of
 * different versions, so nothing here has one.
 *
 * Context switches and wake-ups, millions a second, go into one ring per processor: plain memory that
 * convoy maps (struct cv_bpf_event, struct cv_bpf_ring). What is rare or long goes through one BPF ring
 * buffer; those records begin with the three fields of struct cv_bpf_record.
 *
 * Every `_ns` is CLOCK_MONOTONIC. Every tid is one of the initial pid namespace.
 */
#ifndef CONVOY_BPF_H
#define CONVOY_BPF_H

#include <stdint.h>

#define CV_BPF_STACK_MAX 16384u   /* bytes of a user stack that are copied at most; a power of two */
#define CV_BPF_KERNEL_FRAMES 16u  /* of a kernel stack */
#define CV_BPF_COMM 16u
#define CV_BPF_NAME 128u
#define CV_BPF_REGISTERS 16u      /* general ones of x86-64 */
#define CV_BPF_RED_ZONE 128u      /* bytes below its stack pointer that a function of x86-64 may use */

enum cv_bpf_kind {
	/* in the rings */
	CV_BPF_SWITCH = 1,
	CV_BPF_WAKEUP = 2,
	CV_BPF_LOST = 3,        /* so many events did not fit into this ring */
	CV_BPF_LOST_STACKS = 4, /* so many new places have no stack */
	/* in the ring buffer */
	CV_BPF_FORK = 16,
	CV_BPF_EXEC = 17,
	CV_BPF_EXIT = 18,
	CV_BPF_INIT = 19,       /* a thread that was there before */
	CV_BPF_STACK = 20,
	CV_BPF_SAMPLE = 21,
};

enum cv_bpf_flag {
	CV_BPF_IOWAIT = 1,      /* switch: waits for a disk */
	CV_BPF_WAKER = 2,       /* wake-up: the waker is known */
	CV_BPF_KERNEL = 4,      /* wake-up: the waker is a thread of the kernel; sample: in the kernel */
	CV_BPF_ON_CPU = 8,      /* init: is on a processor */
	CV_BPF_OFF = 16,        /* init: is blocked, and the place is known */
	CV_BPF_HAS_REGISTERS = 32, /* sample: its registers are there */
};

/* `arg1` of a switch in a poll() for one descriptor: `arg0` is that, and not where it is written. No poll() has so many. */
#define CV_BPF_POLLS_ONE 0xffffffffu

/* Lost events are told in the same place as events: `ts_ns` and `arg0` are the last and the first time,
 * `tid` is their number. */
struct cv_bpf_event {
	uint64_t ts_ns;
	uint64_t arg0;          /* of the system call of the one that left, or of the waker */
	uint32_t tid;           /* switch: who left, 0 = not recorded; wake-up: who was woken */
	uint32_t other;         /* switch: who came, 0 = not recorded; wake-up: the waker */
	uint32_t key;           /* the place of the one that left, or of the waker; 0 = none */
	uint32_t arg1;          /* low half */
	int16_t nr;             /* system call, -1 = none */
	uint16_t state;         /* switch: kernel task state, 0 = could have gone on */
	uint8_t kind;           /* enum cv_bpf_kind */
	uint8_t flags;          /* enum cv_bpf_flag */
	uint16_t reserved;
};
_Static_assert(sizeof(struct cv_bpf_event) == 40, "abi");

/* Of the ring of one processor. Everything but `tail` is written by the programs on that processor,
 * with interrupts off. */
struct cv_bpf_ring {
	uint64_t head;          /* events ever written; written after the event */
	uint64_t lost_from_ns;  /* lost and not yet told */
	uint64_t lost_to_ns;
	uint64_t skipped_from_ns; /* the same for stacks */
	uint64_t skipped_to_ns;
	uint32_t lost;
	uint32_t skipped;
	uint64_t copies_ns;     /* stack copies up to this time are spent; ahead of the clock after a burst */
	uint64_t reserved;
	uint64_t tail;          /* events ever read; written by convoy */
	uint64_t reserved_tail[7];
};
_Static_assert(sizeof(struct cv_bpf_ring) == 128, "abi");

/* Constants of a recording. */
struct cv_bpf_config {
	uint32_t ring_events;   /* in each ring, a power of two */
	uint32_t stack_bytes;   /* to copy at most */
	uint64_t copy_interval_ns; /* one stack copy in this time on each processor... */
	uint64_t copy_burst_ns; /* ... and so much of that time can be saved up */
	uint64_t keep_free_bytes; /* of the ring buffer, for what is not a stack */
	uint64_t filling_bytes; /* with more than that in the ring buffer, convoy is woken up */
	uint32_t switch_has_state; /* the tracepoint gives the state as its fourth argument */
	uint32_t reserved;
};

/* What convoy tells the programs while they run, and back. */
struct cv_bpf_control {
	uint32_t adopt_parent;  /* processes that this thread forks are recorded; 0 = none */
	uint32_t adopting;      /* running processes are being adopted: forks look at the list, too */
	uint64_t adopted;       /* threads found running; atomic */
	uint64_t lives_lost;    /* forks, execs, exits that could not be told; atomic */
	uint64_t rung_ns;       /* when convoy was last woken up */
};

/* ---- records of the ring buffer ------------------------------------------------------------ */

struct cv_bpf_record {
	uint64_t ts_ns;
	uint32_t kind;          /* enum cv_bpf_kind */
	uint32_t tid;
};

/* FORK, EXEC, EXIT */
struct cv_bpf_life {
	uint64_t ts_ns;
	uint32_t kind;
	uint32_t tid;
	uint32_t tgid;
	uint32_t other;         /* fork: the thread that made it; exec: the tid before */
	uint8_t comm[CV_BPF_COMM]; /* exit */
};

/* INIT */
struct cv_bpf_init {
	uint64_t ts_ns;
	uint32_t kind;
	uint32_t tid;
	uint32_t tgid;
	uint32_t key;
	uint8_t comm[CV_BPF_COMM];
	uint64_t ip;            /* of user mode, as the three below */
	uint64_t sp;
	uint64_t fp;
	uint64_t lr;
	uint64_t arg0;
	uint32_t arg1;
	int16_t nr;
	uint16_t state;
	uint32_t flags;
	uint32_t reserved;
};

/* STACK, SAMPLE; followed by `bytes` bytes from `sp` upwards, before which a sample that has them has its registers
 * (struct cv_bpf_registers) */
struct cv_bpf_stack {
	uint64_t ts_ns;
	uint32_t kind;
	uint32_t tid;
	uint64_t ip;            /* of user mode, as the three below */
	uint64_t sp;
	uint64_t fp;
	uint64_t lr;
	uint64_t arg0;          /* SAMPLE of x86-64 in user mode: rax */
	uint32_t arg1;          /* and there: the processor's flags; in read(), write(), pwrite64(), recvfrom() and sendto() the length */
	uint32_t key;           /* stack */
	int16_t nr;
	uint16_t flags;
	uint16_t kernel_frames; /* in `kernel` */
	uint16_t bytes;
	uint64_t kernel[CV_BPF_KERNEL_FRAMES]; /* leaf first */
};

/* Of user mode, in the order in which instructions number them: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
 * Of x86-64 only: elsewhere nobody reads what an instruction touches. */
struct cv_bpf_registers {
	uint64_t general[CV_BPF_REGISTERS];
	uint8_t red_zone[CV_BPF_RED_ZONE]; /* what is right below `sp`: a function that calls none has variables there */
};

/* A question about an address of the kernel, and the answer. */
struct cv_bpf_name {
	uint64_t address;
	uint8_t name[CV_BPF_NAME]; /* of the function that it is in, and "[module]"; ends with 0 */
};

#endif
