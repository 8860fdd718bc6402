/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The agent in a process that runs already: docs/design/0008-attach.md. */
#ifndef CV_ATTACH_H
#define CV_ATTACH_H

#include <stdbool.h>

/* The agent has been put into this process while it ran. */
bool cv_attach_is_in(void);

/* The agent was attached, and is not any more: hooks are out, or the process is a child of the one
 * that was attached to, with a copy of its memory. Its tables are nobody's, or another's. */
bool cv_attach_is_out(void);

/* In the child of a fork: true if the agent was attached to its parent. The child's code is then
 * as it was before, and it goes on unrecorded. */
bool cv_attach_forked(void);

#endif
