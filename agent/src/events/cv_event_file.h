/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the files of the event build share besides cv_event.h. */
#ifndef CV_EVENT_FILE_H
#define CV_EVENT_FILE_H

#include "cv_event.h"

/* The event file of this process image; NULL = nothing is recorded. */
extern struct cv_events *cv_event_file __attribute__((visibility("hidden")));

void cv_event_drop(enum cv_events_drop reason, uint64_t events);

/* file.c: take a free chunk for the writer; false = there is none. Hand its chunk over. */
bool cv_event_chunk_take(struct cv_event_writer *w);
void cv_event_chunk_own(const struct cv_event_writer *w); /* its header is written */
void cv_event_chunk_hand_over(struct cv_event_writer *w);

/* rseq.c */
bool cv_event_rseq_works(void);                            /* once per process image */
void cv_event_rseq_attach(struct cv_event_writer *w);      /* of the calling thread */
void cv_event_rseq_detach(struct cv_event_writer *w);
bool cv_event_rseq_rearm(struct cv_event_writer *w);       /* true = the thread was switched out since */

#endif
