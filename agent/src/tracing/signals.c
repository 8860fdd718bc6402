/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The program's signal handlers. The kernel calls ours, which first makes the interrupted state what it would be without the
 * tracer, and then calls the program's. Everything else - mask, flags, stack, when a handler is reset - stays
 * the kernel's business, since only the address of the handler is changed. Agent rules: ../cv_agent.h.
 */
#include <signal.h>

#include "../cv_real.h"
#include "cv_tracer.h"

#include "../cv_banned.h"

#define SIGNALS 65

typedef void (*handler)(int, siginfo_t *, void *);

static handler handlers[SIGNALS]; /* the program's; stays when the kernel's is another, for those who are in ours */

/* Handlers without SA_SIGINFO are called the same way: the other arguments are in registers that they ignore, as
 * the kernel does it. */
void cv_tr_signalled(int sig, siginfo_t *info, void *context)
{
	handler theirs = __atomic_load_n(&handlers[sig], __ATOMIC_ACQUIRE);

	if (cv_tr_guest_context(sig, context) != CV_TR_AT_WORK)
		cv_trace_signalled(sig);
	theirs(sig, info, context);
	/* A section of the handler's that it has not ended is in code that nobody traces any more. */
	cv_trace_cut(CV_END_LEFT, 0);
}

static bool is_handler(void *h)
{
	return h != (void *)SIG_DFL && h != (void *)SIG_IGN && h != (void *)SIG_ERR && h != (void *)SIG_HOLD;
}

/* What the kernel is to be told instead of the program's. */
static void *wrap(int sig, void *h)
{
	if (!cv_trace_on || sig <= 0 || sig >= SIGNALS || !is_handler(h))
		return h;
	__atomic_store_n(&handlers[sig], (handler)h, __ATOMIC_RELEASE);
	return (void *)cv_tr_signal;
}

static void *unwrap(void *h, handler theirs)
{
	return h == (void *)cv_tr_signal ? (void *)theirs : h;
}

static handler current(int sig)
{
	return sig > 0 && sig < SIGNALS ? __atomic_load_n(&handlers[sig], __ATOMIC_ACQUIRE) : NULL;
}

static int change(int sig, const struct sigaction *action, struct sigaction *old)
{
	handler before = current(sig);
	struct sigaction ours;
	int r;

	if (action) {
		ours = *action;
		ours.sa_handler = (void (*)(int))wrap(sig, (void *)action->sa_handler);
	}
	r = cv_real(sigaction)(sig, action ? &ours : NULL, old);
	if (r == 0 && old)
		old->sa_handler = (void (*)(int))unwrap((void *)old->sa_handler, before);
	if (r != 0 && action && sig > 0 && sig < SIGNALS)
		__atomic_store_n(&handlers[sig], before, __ATOMIC_RELEASE);
	return r;
}

CV_EXPORT int sigaction(int sig, const struct sigaction *action, struct sigaction *old)
{
	return CV_HOOK(CV_OP_NONE, 0, change(sig, action, old));
}

CV_EXPORT int cv__sigaction(int sig, const struct sigaction *action, struct sigaction *old) __asm__("__sigaction");
CV_EXPORT int cv__sigaction(int sig, const struct sigaction *action, struct sigaction *old)
{
	return CV_HOOK(CV_OP_NONE, 0, change(sig, action, old));
}

/* The older ones differ in mask and flags, which theirs set as they do. */
#define OLDER(name)                                                                                       \
	CV_EXPORT void *cv_##name(int sig, void *h) __asm__(#name);                                       \
	CV_EXPORT void *cv_##name(int sig, void *h)                                                       \
	{                                                                                                 \
		handler before = current(sig);                                                            \
                                                                                                          \
		return CV_HOOK(CV_OP_NONE, 0, unwrap(cv_real(name)(sig, wrap(sig, h)), before));          \
	}
OLDER(signal)
OLDER(ssignal)
OLDER(bsd_signal)
OLDER(sysv_signal)
OLDER(__sysv_signal)
OLDER(sigset)

/* Handlers that are there already. */
void cv_trace_signals_begin(void)
{
	struct sigaction action;

	for (int sig = 1; sig < SIGNALS && cv_trace_on; sig++)
		if (cv_real(sigaction)(sig, NULL, &action) == 0 && is_handler((void *)action.sa_handler) &&
		    (void *)action.sa_handler != (void *)cv_tr_signal)
			change(sig, &action, NULL);
}
