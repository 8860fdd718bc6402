/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Code that is unmapped, replaced or made writable: its translations are given up. Agent rules: ../cv_agent.h. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../cv_real.h"
#include "cv_tracer.h"

#include "../cv_banned.h"

static void gone(uint64_t at, uint64_t bytes)
{
	if (cv_trace_on)
		cv_tr_invalidate(at, at + bytes < at ? ~0ull : at + bytes);
}

void cv_trace_remaps(long nr, uint64_t address, uint64_t bytes)
{
	switch (nr) {
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
	case SYS_mremap:
	case SYS_mmap:
	case SYS_madvise:
		if (address)
			gone(address, bytes);
		break;
	default:
		break;
	}
}

/* Before the call, so that nobody runs what is gone; behind it, for what was translated meanwhile. */
#define REMAPS(at, bytes, call)                                              \
	({                                                                   \
		__typeof__(call) result_;                                    \
		gone((uint64_t)(uintptr_t)(at), bytes);                      \
		result_ = (call);                                            \
		gone((uint64_t)(uintptr_t)(at), bytes);                      \
		result_;                                                     \
	})

CV_EXPORT int munmap(void *at, size_t bytes)
{
	return CV_HOOK(CV_OP_NONE, 0, REMAPS(at, bytes, cv_real(munmap)(at, bytes)));
}

CV_EXPORT int mprotect(void *at, size_t bytes, int protection)
{
	return CV_HOOK(CV_OP_NONE, 0, REMAPS(at, bytes, cv_real(mprotect)(at, bytes, protection)));
}

CV_EXPORT int pkey_mprotect(void *at, size_t bytes, int protection, int key)
{
	return CV_HOOK(CV_OP_NONE, 0, REMAPS(at, bytes, cv_real(pkey_mprotect)(at, bytes, protection, key)));
}

CV_EXPORT int madvise(void *at, size_t bytes, int advice)
{
	if (advice != MADV_DONTNEED && advice != MADV_FREE && advice != MADV_REMOVE)
		return CV_HOOK(CV_OP_NONE, 0, cv_real(madvise)(at, bytes, advice));
	return CV_HOOK(CV_OP_NONE, 0, REMAPS(at, bytes, cv_real(madvise)(at, bytes, advice)));
}

/* By its symbol: the header declares it with "...", which is the same to the caller. */
CV_EXPORT void *cv_mremap(void *at, size_t bytes, size_t size, int flags, void *to) __asm__("mremap");
CV_EXPORT void *cv_mremap(void *at, size_t bytes, size_t size, int flags, void *to)
{
	if (flags & MREMAP_FIXED)
		gone((uint64_t)(uintptr_t)to, size);
	return CV_HOOK(CV_OP_NONE, 0, REMAPS(at, bytes, cv_real(mremap)(at, bytes, size, flags, to)));
}

static void *map(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (!(flags & MAP_FIXED))
		return cv_real(mmap)(at, bytes, protection, flags, fd, offset);
	return REMAPS(at, bytes, cv_real(mmap)(at, bytes, protection, flags, fd, offset));
}

CV_EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return CV_HOOK(CV_OP_NONE, 0, map(at, bytes, protection, flags, fd, offset));
}

/* The same function on 64-bit machines. */
CV_EXPORT void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off64_t offset)
{
	return CV_HOOK(CV_OP_NONE, 0, map(at, bytes, protection, flags, fd, offset));
}
