/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Enters a seccomp sandbox that kills for opening a file, a socket or a process's memory, as renderers
 * and media decoders do, then makes threads and lets them end.
 */
#include "rob.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define DENY(name)                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

int main(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		DENY(open),
		DENY(openat),
		DENY(socket),
		DENY(process_vm_readv),
		DENY(ptrace),
		DENY(memfd_create),
		DENY(kill),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof rules / sizeof rules[0], rules };

	counted_section(101);
	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
	for (int i = 0; i < 3; i++)
		pthread_join(start(counted_main, (void *)100), NULL);
	puts("sandboxed");
	return 0;
}
