/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Causal experiments: what the experimenting build of the agent (loaded by `convoy causal`) and
 * convoy share.
 *
 * One more file in the session directory, beside the arena p<pid>.<n> of the same process image:
 *
 *   c<pid>.<n>    header page, control page, address ranges, progress points, threads, samples
 *
 * convoy writes the control page, before the first experiment the ranges, and the groups of
 * threads; the agent writes everything else, and closes a window whose time is over: convoy may
 * have been killed. The first two pages are read in every hook. Every number that a reader meets is
 * hostile. Bump CV_CAUSAL_VERSION for every change of a layout or of a meaning.
 */
#ifndef CONVOY_CAUSAL_H
#define CONVOY_CAUSAL_H

#include <stddef.h>
#include <stdint.h>

#define CV_CAUSAL_MAGIC 0x315541435f564f43ull /* "COV_CAU1" */
#define CV_CAUSAL_VERSION 4u

/* ---- the file --------------------------------------------------------------------------- */

enum cv_causal_flag {
	CV_CAUSAL_CPU_CLOCK = 1,    /* CPU time of a thread is read without a system call (rseq) */
	CV_CAUSAL_SIGNAL_TAKEN = 2, /* the program wants `signal` for itself: samples must stop */
	CV_CAUSAL_FIFO_BROKEN = 4,  /* a queue in front of a mutex stood still, and was given up */
	CV_CAUSAL_CONDITION = 8,    /* threads wait on a condition with the mutex: all take it as it is */
};

#define CV_CAUSAL_PAGE 4096u
#define CV_CAUSAL_RANGES 4096u
#define CV_CAUSAL_POINTS 64u
#define CV_CAUSAL_THREADS 4096u
#define CV_CAUSAL_SAMPLES 32768u /* a power of two: a ring */
#define CV_CAUSAL_LOCKS 16u
#define CV_CAUSAL_TARGETS 32u

struct cv_causal {
	uint64_t magic;          /* written last */
	uint32_t version;
	uint32_t pid;
	uint64_t bytes;          /* of the file */
	uint64_t arena_start_ns; /* cv_arena.start_ns of the image that it belongs to */
	uint32_t flags;          /* atomic: enum cv_causal_flag */
	/* Number of the signal that a sample sends; 0 = none is free. Below 32: where a real-time signal
	 * cannot be queued the kernel sends SIGIO, which would end the program. */
	uint32_t signal;
	uint32_t threads;        /* atomic: one past the highest thread record in use */
	uint32_t points;         /* atomic: progress points in use */
	uint64_t samples;        /* atomic: samples taken; the ring holds the last ones */
	uint8_t reserved[4096 - 56];
};
_Static_assert(sizeof(struct cv_causal) == CV_CAUSAL_PAGE, "causal abi v4");

/* ---- control: written by convoy ---------------------------------------------------------- */

enum cv_causal_estimator {
	CV_CAUSAL_NONE = 0,
	CV_CAUSAL_DILATE = 1, /* lengthen everything but the subject by factor */
	CV_CAUSAL_SLOW = 2,   /* lengthen the subject by factor */
	CV_CAUSAL_TRY = 3,    /* threads wait for the subject's mutexes by another algorithm */
};

/* Ways to wait for a mutex, in front of or within the C library's own. */
enum cv_causal_algorithm {
	CV_CAUSAL_ADAPTIVE = 0, /* spins about as long as spinning has helped before, then sleeps */
	CV_CAUSAL_SPIN = 1,     /* spins for `spin_ns`, then sleeps */
	CV_CAUSAL_FIFO = 2,     /* threads get the mutex in the order in which they came (ticket lock) */
	CV_CAUSAL_SHARED = 3,   /* threads hold it together, in sections that CODE enters if that is set */
	CV_CAUSAL_UNLOCKED = 4, /* threads enter its sections without it */
};

/* Bits; 0 = nothing, of a null experiment. */
enum cv_causal_subject {
	CV_CAUSAL_CODE = 1,    /* instructions in the ranges of `targets` */
	CV_CAUSAL_LOCK = 2,    /* critical sections of `lock` */
	CV_CAUSAL_SLEEP = 4,   /* sleeps */
	CV_CAUSAL_GROUP = 8,   /* all that threads run that are of `groups` */
};

enum cv_causal_mechanism {
	CV_CAUSAL_SAMPLED = 0,  /* each sample lengthens what ran since the one before */
	CV_CAUSAL_MEASURED = 1, /* each hook lengthens what ran since the one before */
};

struct cv_causal_control {
	/* Atomic: number of the window, 0 = none. Written last; the agent writes 0 after until_ns. */
	uint32_t window;
	uint32_t estimator; /* enum cv_causal_estimator */
	uint32_t subject;   /* enum cv_causal_subject, several */
	uint32_t mechanism; /* enum cv_causal_mechanism */
	uint32_t factor;    /* of the additional time, in 1/65536 */
	uint32_t record;    /* not 0: samples go into the ring */
	uint32_t period_ns; /* CPU time between two samples of a thread: no sample stands for more */
	uint32_t timers;    /* CPU time between two signals of timers that threads arm themselves, ns; 0 = none */
	uint32_t targets;   /* bit = number of a target whose ranges are the subject */
	uint32_t ranges;    /* in use */
	uint32_t locks;     /* in use */
	uint32_t leave;     /* not 0: the next sample gives the signal back, which is ignored by default */
	uint64_t until_ns;  /* end of the window at the latest, CLOCK_MONOTONIC */
	uint32_t signal_cost_ns; /* CPU time of a signal, without its handler */
	uint32_t algorithm; /* enum cv_causal_algorithm */
	uint64_t lock[CV_CAUSAL_LOCKS]; /* addresses */
	uint32_t spin_ns;   /* how long a thread spins for a mutex before it sleeps */
	uint32_t groups;    /* bit = number of a target whose threads are the subject */
	/* By number of a target: functions of its call path. 0 = the instructions of its ranges; n = all
	 * that runs while functions of steps 1 to n are on the stack, in this order. */
	uint8_t steps[CV_CAUSAL_TARGETS];
	uint8_t reserved[4096 - 72 - CV_CAUSAL_LOCKS * 8 - CV_CAUSAL_TARGETS];
};
_Static_assert(sizeof(struct cv_causal_control) == CV_CAUSAL_PAGE, "causal abi v4");

/* Sorted by address, without overlap. */
struct cv_causal_range {
	uint64_t lo, hi;
	uint32_t target; /* its number, below CV_CAUSAL_TARGETS */
	uint32_t step;   /* of a call path, outermost = 1; else 0 */
};
_Static_assert(sizeof(struct cv_causal_range) == 24, "causal abi v4");

/* ---- what the agent writes --------------------------------------------------------------- */

/* Named by the program (coz.h). Its first word is the program's counter, which it increments
 * itself. */
struct cv_causal_point {
	uint64_t count;
	uint64_t reserved0; /* coz_counter_t.backoff */
	uint32_t kind;      /* coz.h: 1 throughput, 2 begin, 3 end of a latency */
	uint32_t reserved1;
	char name[104];
};
_Static_assert(sizeof(struct cv_causal_point) == 128, "causal abi v4");

/* Counters of one thread. They go on with the next one that takes the record. The second half is
 * the agent's own. */
struct cv_causal_thread {
	/* Atomic: 0 = free. A thread that no hook has seen keeps its record behind its end. */
	uint32_t tid;
	uint32_t handling; /* it is in the handler of a sample, where the signal is blocked */
	uint64_t releases; /* locks released */
	uint64_t wakes;    /* conditions signalled, semaphores posted */
	uint64_t arrivals; /* at barriers */
	uint64_t samples;  /* signals taken in windows */
	uint64_t hits;     /* of these, in the subject */
	uint64_t tried;    /* waits for a mutex by another algorithm */
	uint64_t added_ns; /* by which code was lengthened */
	uint64_t sleeps;   /* relative sleeps */
	uint64_t broken;   /* system calls that a sample has interrupted: must be 0 */
	uint64_t calls_ns; /* CPU time in hooked calls, where hooks measure: it is not lengthened */
	uint64_t groups;   /* atomic, written by convoy: bit = number of a target that it is a thread of */
	uint64_t reserved[4];
	uint64_t working[16];
};
_Static_assert(sizeof(struct cv_causal_thread) == 256, "causal abi v4");

#define CV_CAUSAL_CONTROL_AT CV_CAUSAL_PAGE
#define CV_CAUSAL_RANGES_AT (2 * CV_CAUSAL_PAGE)
#define CV_CAUSAL_POINTS_AT (CV_CAUSAL_RANGES_AT + CV_CAUSAL_RANGES * 24u)
#define CV_CAUSAL_THREADS_AT (CV_CAUSAL_POINTS_AT + CV_CAUSAL_POINTS * 128u)
#define CV_CAUSAL_SAMPLES_AT (CV_CAUSAL_THREADS_AT + CV_CAUSAL_THREADS * 256u)
#define CV_CAUSAL_BYTES (CV_CAUSAL_SAMPLES_AT + CV_CAUSAL_SAMPLES * 8u)
_Static_assert(CV_CAUSAL_BYTES % CV_CAUSAL_PAGE == 0, "whole pages");

#endif
