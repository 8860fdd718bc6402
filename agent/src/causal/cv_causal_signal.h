/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The signal of a sample, between the file that handles it and the one that guards it. */
#ifndef CV_CAUSAL_SIGNAL_H
#define CV_CAUSAL_SIGNAL_H

#include "cv_causal.h"

bool cv_causal_is_sample_handler(void *handler);

#endif
