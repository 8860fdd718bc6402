/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Threads that may be cancelled. The C library unwinds them from where its signal comes upon them, which it cannot
 * in a cache of translated code: they have to be out of it before. Agent rules: ../cv_agent.h.
 */
#include <elf.h>
#include <link.h>
#include <pthread.h>

#include "../cv_real.h"
#include "cv_tracer.h"

#include "../cv_banned.h"

/* The loader has turned most of these into addresses, but not in every object. */
static const void *pointer(const struct dl_phdr_info *info, uint64_t value)
{
	return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
}

/* Undefined symbols stand before those that the hash table knows. */
static bool asks_for(const ElfW(Sym) *symbols, uint32_t count, const char *strings, const char *name)
{
	for (uint32_t i = 1; i < count; i++)
		if (symbols[i].st_shndx == SHN_UNDEF && strcmp(strings + symbols[i].st_name, name) == 0)
			return true;
	return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	const uint32_t *gnu_hash = NULL, *hash = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const ElfW(Dyn) *d = NULL;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB: symbols = pointer(info, d->d_un.d_ptr); break;
		case DT_STRTAB: strings = pointer(info, d->d_un.d_ptr); break;
		case DT_GNU_HASH: gnu_hash = pointer(info, d->d_un.d_ptr); break;
		case DT_HASH: hash = pointer(info, d->d_un.d_ptr); break;
		default: break;
		}
	}
	if (!symbols || !strings || (!gnu_hash && !hash))
		return 0;
	*(bool *)arg = asks_for(symbols, hash ? hash[1] : gnu_hash[1], strings, "pthread_cancel");
	return *(bool *)arg;
}

extern int cv_loader_look(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg) __asm__("dl_iterate_phdr");

/* Some object of it asks for pthread_cancel. One that is loaded later and does is not noticed. */
bool cv_trace_cancels(void)
{
	bool found = false;

	cv_loader_look(look, &found);
	return found;
}

/* ---- a thread that may be cancelled anywhere ---- */

static int set_type(int type, int *old)
{
	int r;

	if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
		cv_trace_cut(CV_END_LEFT, 0);
	r = cv_real(pthread_setcanceltype)(type, old);
	if (r == 0)
		cv_tracer.anywhere = type == PTHREAD_CANCEL_ASYNCHRONOUS;
	return r;
}

CV_EXPORT int pthread_setcanceltype(int type, int *old)
{
	return CV_HOOK(CV_OP_NONE, 0, set_type(type, old));
}
