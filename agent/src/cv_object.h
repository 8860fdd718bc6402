/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The process's table of objects: one record per address and creation site. */
#ifndef CV_OBJECT_H
#define CV_OBJECT_H

#include "cv_arena.h"

/* The record of the object at `addr`, made if need be; NULL when full (counted). */
struct cv_object *cv_object_get(uint64_t addr, enum cv_object_kind kind);

/* The record if there is one. */
struct cv_object *cv_object_find(uint64_t addr);

/* Called by *_init hooks, after the real one succeeded. */
void cv_object_init(uint64_t addr, enum cv_object_kind kind, uint32_t attr);

/* Called by *_destroy hooks. */
void cv_object_destroy(uint64_t addr);

/* This thread has just released, signalled or posted `obj` while others waited: leave word for the
 * one that wakes. Call it outside of any lock of the program that it could lengthen. */
void cv_object_woken(uint64_t addr, enum cv_object_kind kind);

/* Make the index now, if there is none yet. */
void cv_objects_prepare(void);

void cv_objects_reset(void);

#endif
