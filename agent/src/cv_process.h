/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The agent's life in a process image: start, fork, exec, end. */
#ifndef CV_PROCESS_H
#define CV_PROCESS_H

/* In the child of a fork that shares no memory with its parent: record into an arena of its own. */
void cv_process_forked(void);

#endif
