/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The agent's life in a process image: start, fork, exec, end. */
#ifndef CV_PROCESS_H
#define CV_PROCESS_H

#include <stdbool.h>

/* In the child of a fork that shares no memory with its parent: record into an arena of its own. */
void cv_process_forked(void);

/* Is the arena the calling process's? Not in the child of a vfork, which runs on its parent's memory; and not where
 * it cannot be told. */
bool cv_process_own(void);

#endif
