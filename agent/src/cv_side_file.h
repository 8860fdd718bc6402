/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Files of a process image beside its arena: "<session>/<letter><pid>.<n>". */
#ifndef CV_SIDE_FILE_H
#define CV_SIDE_FILE_H

#include "cv_agent.h"

/* Create one of this length, zeroed; its descriptor, or a negative error. */
long cv_side_file_create(char letter, uint32_t pid, uint64_t bytes);

#endif
