/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef CV_MUTEX_H
#define CV_MUTEX_H

#include "cv_agent.h"

/* Test that plain mutexes are what the inline path believes them to be, and switch it on if so. */
bool cv_mutex_init(struct cv_thread *t);

#endif
