/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The agent's life in a process image: start, fork, exec, end. */
#ifndef CV_PROCESS_H
#define CV_PROCESS_H

#include <stdbool.h>

#define CV_SESSION_ENV "_CONVOY_SESSION="
#define CV_SESSION_ENV_LEN (sizeof(CV_SESSION_ENV) - 1)

/* The session's directory, as an environment names it; NULL = it does not. */
const char *cv_session_env(char *const *env);

/* Record into a session that is named now, in a process that has run without one. `again`: it was
 * recorded before, and no thread is inside the agent. */
bool cv_process_attach(const char *dir, bool again);

/* In the child of a fork that shares no memory with its parent: record into an arena of its own. */
void cv_process_forked(void);

/* Is the arena the calling process's? Not in the child of a vfork, which runs on its parent's memory; and not where
 * it cannot be told. */
bool cv_process_own(void);

#endif
