/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Executable files: whether the loader of a program that is about to be started will load the agent. A few
 * microseconds of the hundreds that an exec takes.
 */
#ifndef CV_IMAGE_H
#define CV_IMAGE_H

#include <stdbool.h>

enum cv_image {
	CV_IMAGE_LOADS,    /* glibc's loader; also where the file does not say */
	CV_IMAGE_IGNORES,  /* static, musl, 32-bit: runs as ever, without the agent */
	CV_IMAGE_REFUSES,  /* its loader may not start it with the agent in LD_PRELOAD, or would complain */
};

/* The file that an exec of `name` runs; scripts are followed to their interpreter. `search`: along PATH. */
enum cv_image cv_image_of(const char *name, bool search);

/* The same for an open file. */
enum cv_image cv_image_of_fd(int fd);

#endif
