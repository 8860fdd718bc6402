/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Runs a command in a sandbox without bpf(), perf_event_open() or both, as containers do:
 * forbids bpf|perf|both ERRNO COMMAND... */
#include "rob.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { NO_CALL = 0xffff };

int main(int argc, char **argv)
{
	uint32_t bpf = is(argv, "perf") ? NO_CALL : SYS_bpf;
	uint32_t perf = is(argv, "bpf") ? NO_CALL : SYS_perf_event_open;

	MUST(argc > 3);

	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bpf, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, perf, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)atoi(argv[2])),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	execvp(argv[3], argv + 3);
	return 127;
}
