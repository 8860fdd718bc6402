/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef SHAPES_H
#define SHAPES_H

#ifdef __cplusplus
extern "C" {
#endif

/* Calls go(depth) from a frame of its own kind. */
typedef int shape(int depth);

/* Calls another function of random shape, until depth is used up; then checks the stack. */
int go(int depth);

int rand_next(void);

#ifdef __cplusplus
}
#endif

#endif
