/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The agent in a process that runs already: docs/design/0008-attach.md. */
#ifndef CV_ATTACH_H
#define CV_ATTACH_H

#include <stdbool.h>

/* In the child of a fork: true if the agent was attached to its parent. The child's code is then
 * as it was before, and it goes on unrecorded. */
bool cv_attach_forked(void);

#endif
