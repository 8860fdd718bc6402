/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Names of the kernel's own functions. Asked for one by one at the end: /proc/kallsyms, which has them as well, takes
 * the kernel 25 ms to write.
 */
#include "kernel.h"
#include "convoy_bpf.h"

#include <bpf/bpf_helpers.h>

/* Apart from the constants that convoy sets (maps.h). */
static const char function[] SEC(".rodata.names") = "%ps";

SEC("syscall")
int name_address(struct cv_bpf_name *asked)
{
	__u64 address = asked->address;
	char name[CV_BPF_NAME] = {};

	bpf_snprintf(name, sizeof(name), function, &address, sizeof(address));
	__builtin_memcpy(asked->name, name, sizeof(name));
	return 0;
}
