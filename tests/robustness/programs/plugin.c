/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A library that locks while it is loaded and unloaded, when the loader holds its own locks. */
#include "rob.h"

__attribute__((constructor)) static void plugin_begin(void)
{
	counted_section(3);
}

__attribute__((destructor)) static void plugin_end(void)
{
	counted_section(5);
}

void plugin_work(void);
void plugin_work(void)
{
	counted_section(13);
}
