// SPDX-License-Identifier: (Apache-2.0 OR MIT) AND GPL-2.0-only
/*
 * The programs that convoy loads into the kernel, as one object: one file per family of probes. They only tell
 * what happened; everything that can be wrong about it is decided outside.
 */
#include "switch.h"
#include "wake.h"
#include "life.h"
#include "adopt.h"
#include "sample.h"
#include "names.h"

/* Helpers that read memory and tasks are offered to programs under this licence only. */
char _license[] SEC("license") = "Dual MIT/GPL";
