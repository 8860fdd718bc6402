/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A small program in the place of the agent: sections begin and end where it says. */
#ifndef HOST_H
#define HOST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The acquire and the release. */
void section_begin(void);
void section_end(void);
/* A function of the agent that is called in between and goes on. */
void section_hook(void);

/* A case: what runs between them. What it leaves in `result` must not depend on how it is run. */
struct host_case {
	const char *name;
	void (*run)(uint8_t *result); /* 4096 bytes, zeros, aligned to a page */
};

extern const struct host_case host_asm_cases[], host_c_cases[], host_cxx_cases[], host_lib_cases[]; /* ended by a name of 0 */

#ifdef __cplusplus
}
#endif
#endif
