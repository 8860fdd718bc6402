/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Between the agent (C) and the translator (Rust, crates/translate) of the tracing build.
 *
 * The translator runs the program's own instructions from a cache, with instructions in between that write
 * down every memory operand, from cv_tr_enter() until control reaches the agent's text or a reason to stop. The
 * program's registers, flags and stack are what they would be without it; return addresses on the stack are the original ones.
 *
 * Nothing here is specific to x86-64 but struct cv_tr's use of the thread pointer.
 */
#ifndef CV_TRANSLATE_H
#define CV_TRANSLATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "convoy_trace.h"

enum cv_tr_mode {
	CV_TR_OFF = 0,    /* no section: nothing is translated */
	CV_TR_INSIDE = 1, /* in translated code, or in the translator */
	CV_TR_HOOK = 2,   /* translated code has called a function of the agent, which runs as it is */
};

/* A thread's state. In static thread-local storage of the agent; translated code reaches it by the thread pointer. */
struct cv_tr {
	uint64_t scratch[8];    /* the translator's */
	uint64_t *at;           /* next word of the record; valid outside of translated code */
	uint64_t *limit;        /* translated code stops with CV_END_TOO_LONG soon after `at` has passed it; there are
				   CV_TR_SLACK_WORDS more words of room behind it */
	uint64_t target;        /* where to go on: cv_tr_enter, and the translator's dispatcher */
	uint64_t hook_return;   /* CV_TR_HOOK: the return address that the called function was given */
	uint64_t *hook_slot;    /* ... and where on the stack it is */
	uint32_t mode;          /* enum cv_tr_mode */
	uint32_t generation;    /* of the translations that this thread may run */
	uint64_t own[23];       /* the translator's */
	uint64_t interrupted;   /* context of a signal whose handler has begun, and which cv_tr_guest_context has not done
				   with; 0 = none. No section may begin, and this state is nobody's but that handler's */
};
#define CV_TR_SLACK_WORDS 8192u

extern __thread struct cv_tr cv_tr __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* What the agent gives the translator. */
struct cv_tr_host {
	struct cv_trace *file;     /* the log of blocks and the counters are written by the translator, the chunks are not */
	uint64_t agent_lo;         /* text of the agent: control that reaches it leaves translated code (CV_TR_HOOK) */
	uint64_t agent_hi;
	const uint64_t *stops;     /* functions at whose entry a section's record ends with CV_END_PROCESS: fork, clone, ...
				    * Kept for the child of a fork. */
	uint32_t stops_count;
	bool values;               /* CV_TARGETS_VALUES */
};

/*
 * Get ready. Once per process image, before the first thread is made; false = this machine cannot (message in
 * *why, a constant string), and cv_tr_enter must not be used.
 */
bool cv_tr_init(const struct cv_tr_host *host, const char **why);

/* The memory of a new thread's tables, and its end. Called with signals as they are, from the thread itself. */
bool cv_tr_thread_begin(void);
void cv_tr_thread_end(void);

/* In the child of a fork: nobody else runs, the caches stay, `file` is a new one whose log of blocks starts empty. */
void cv_tr_forked(struct cv_trace *file);

/*
 * Not a function to call: an address to return to. A hook that ends with cv_tr.target = its own return address, cv_tr.mode =
 * CV_TR_INSIDE and its return slot overwritten by &cv_tr_enter goes on in translated code. All registers and
 * flags are as the hook left them. The agent has set `at` and `limit` before.
 */
void cv_tr_enter(void);

/*
 * Called by the translator, on the thread's own stack below its red zone, with the program's registers saved, when a record ends
 * otherwise than by a hook: the agent closes the section. The thread goes on natively at the same place. `mode` is
 * CV_TR_OFF already, and all signals are blocked. Also called from cv_tr_guest_context, with signals as they are in the
 * handler. May not block or allocate.
 */
void cv_tr_left(enum cv_section_end end, uint64_t detail);

/* Whether an address is in a cache or in the translator's own assembly (not: in its compiled code). */
bool cv_tr_has(uint64_t pc);

/*
 * Not a function to call: the handler that the kernel is given. It goes on in cv_tr_signalled, the agent's, which calls
 * cv_tr_guest_context before all else.
 */
void cv_tr_signal(int sig, siginfo_t *info, void *context);
void cv_tr_signalled(int sig, siginfo_t *info, void *context);

enum cv_tr_found {
	CV_TR_PROGRAM = 0, /* the context was the program's */
	CV_TR_OURS = 1,    /* it is now, or that of the handler which this signal interrupted at its first instructions */
	CV_TR_AT_WORK = 2, /* that handler is about to do it: until then (cv_tr.interrupted) hands off the thread's state */
};

/*
 * A signal arrived. If its context is inside translated code or the translator on behalf of it, make of it what the
 * program would have there - the address of its own next instruction, its own registers - and end the record with
 * CV_END_SIGNAL through cv_tr_left; the thread goes on natively after the handler. Async-signal-safe. Where the
 * signal found the translator at work (not in translated code), the program's registers are those that it had saved.
 */
enum cv_tr_found cv_tr_guest_context(int sig, ucontext_t *context);

/*
 * Code has been unmapped, replaced or changed somewhere in [lo, hi): give up every translation. Safe while other
 * threads run translations: those go on with what they have until they come to the dispatcher.
 */
void cv_tr_invalidate(uint64_t lo, uint64_t hi);

#endif
