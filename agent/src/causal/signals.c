/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The program's own use of the signal that samples send.
 *
 * The signal was free when the agent began. A program that sets all signals to their default, as a
 * daemon does when it starts, is told that it has done so: without the handler no code would be
 * lengthened. One that installs a handler gets it; before that convoy is asked to stop all samples,
 * and the experiments end with that reason. Agent rules: ../cv_agent.h.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "../cv_real.h"
#include "../cv_sandbox.h"
#include "cv_causal_signal.h"

#include "../cv_banned.h"

#define PATIENCE_NS 100000000u

/* Samples are on their way until convoy has closed the window, which looks every 10 ms. */
static void give_up(void)
{
	struct timespec ms = { 0, 1000000 };
	uint64_t until;

	__atomic_fetch_or(&cv_causal_file->flags, CV_CAUSAL_SIGNAL_TAKEN, __ATOMIC_SEQ_CST);
	cv_causal_sampling_disarm_all();
	for (until = cv_now() + PATIENCE_NS;
	     !cv_is_quiet() && cv_causal_window() && cv_causal_left() && cv_now() < until;)
		cv_syscall(SYS_nanosleep, (long)&ms, 0, 0, 0, 0, 0);
}

static bool is_ours(int sig)
{
	return cv_causal_file && sig > 0 && (uint32_t)sig == cv_causal_file->signal &&
	       !(cv_causal_file->flags & CV_CAUSAL_SIGNAL_TAKEN);
}

static bool is_handler(void *h)
{
	return h != (void *)SIG_DFL && h != (void *)SIG_IGN;
}

static int change(int sig, const struct sigaction *action, struct sigaction *old)
{
	bool ours = is_ours(sig), keeps = !action || !is_handler((void *)action->sa_handler);
	int r;

	if (ours && !keeps)
		give_up();
	r = cv_real(sigaction)(sig, ours && keeps ? NULL : action, old);
	if (r == 0 && old && cv_causal_is_sample_handler((void *)old->sa_handler)) {
		memset(old, 0, sizeof(*old));
		old->sa_handler = SIG_DFL;
	}
	return r;
}

CV_EXPORT int sigaction(int sig, const struct sigaction *action, struct sigaction *old)
{
	return change(sig, action, old);
}

CV_EXPORT int cv__sigaction(int sig, const struct sigaction *action, struct sigaction *old) __asm__("__sigaction");
CV_EXPORT int cv__sigaction(int sig, const struct sigaction *action, struct sigaction *old)
{
	return change(sig, action, old);
}

/* The older ones differ in mask and flags, which theirs set as they do. */
#define OLDER(name)                                                                  \
	CV_EXPORT void *cv_##name(int sig, void *h) __asm__(#name);                  \
	CV_EXPORT void *cv_##name(int sig, void *h)                                  \
	{                                                                            \
		void *before;                                                        \
                                                                                     \
		if (is_ours(sig)) {                                                  \
			if (!is_handler(h))                                          \
				return (void *)SIG_DFL;                              \
			give_up();                                                   \
		}                                                                    \
		before = cv_real(name)(sig, h);                                      \
		return cv_causal_is_sample_handler(before) ? (void *)SIG_DFL : before; \
	}
OLDER(signal)
OLDER(ssignal)
OLDER(bsd_signal)
OLDER(sysv_signal)
OLDER(__sysv_signal)
OLDER(sigset)
