/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "cv_arena.h"
#include "cv_side_file.h"

#include "cv_banned.h"

#define IMAGES_MOST 4096u /* of one pid */

static void path_of(char *to, char letter, uint32_t pid, uint32_t n)
{
	for (const char *s = cv_session_dir; *s; s++)
		*to++ = *s;
	*to++ = '/';
	*to++ = letter;
	for (int round = 0; round < 2; round++) {
		uint32_t v = round ? n : pid;
		char digits[12];
		int k = 0;

		do
			digits[k++] = (char)('0' + v % 10);
		while (v /= 10);
		while (k)
			*to++ = digits[--k];
		*to++ = round ? '\0' : '.';
	}
}

long cv_side_file_create(char letter, uint32_t pid, uint64_t bytes)
{
	char path[sizeof(cv_session_dir) + 32];
	struct rlimit lim;
	long fd = -EEXIST;

	/* ftruncate beyond RLIMIT_FSIZE raises SIGXFSZ */
	if (cv_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&lim, 0, 0) == 0 && lim.rlim_cur < bytes)
		return -EFBIG;
	for (uint32_t n = 0; n < IMAGES_MOST && fd == -EEXIST; n++) {
		path_of(path, letter, pid, n);
		fd = cv_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
				0600, 0, 0);
	}
	if (fd >= 0 && cv_syscall(SYS_ftruncate, fd, (long)bytes, 0, 0, 0, 0) < 0) {
		cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
		return -ENOSPC;
	}
	return fd;
}
