/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. dlsym is called at start-up, and in a hook only when that hook runs before
 * the agent's constructor; its success path neither allocates nor calls an interposed function. */
#include <dlfcn.h>
#include <gnu/libc-version.h>

#include "cv_modules.h"
#include "cv_real.h"

#include "cv_banned.h"

void *cv_real_table[CV_REAL_COUNT];

#define CV_REAL_NAME(name, version, ret, args) { #name, version },
static const struct {
	const char *name;
	const char *version;
} names[CV_REAL_COUNT] = { CV_REAL_LIST(CV_REAL_NAME) };
#undef CV_REAL_NAME

/* Bound when the agent is linked, so they need no lookup however early they are called: malloc of
 * a program that brings its own may lock a mutex while the loader still works. Weak: an older C
 * library without these aliases is served by dlsym. */
extern int libc_mutex_lock(pthread_mutex_t *) __attribute__((weak));
extern int libc_mutex_trylock(pthread_mutex_t *) __attribute__((weak));
extern int libc_mutex_unlock(pthread_mutex_t *) __attribute__((weak));
#if defined(__x86_64__)
__asm__(".symver libc_mutex_lock,__pthread_mutex_lock@GLIBC_2.2.5");
__asm__(".symver libc_mutex_trylock,__pthread_mutex_trylock@GLIBC_2.2.5");
__asm__(".symver libc_mutex_unlock,__pthread_mutex_unlock@GLIBC_2.2.5");
#endif

#if defined(__x86_64__)
/* Sanitizers define these aliases as well, but cannot serve a call to them where the C library's are not
 * linkable any more: only the C library's own will do. */
static void *if_of_libc(void *f)
{
	struct cv_mapping libc, its;

	return f && cv_mapping_find((uint64_t)(uintptr_t)&gnu_get_libc_version, &libc) &&
			       cv_mapping_find((uint64_t)(uintptr_t)f, &its) && its.lo == libc.lo ?
		       f :
		       NULL;
}
#endif

void *cv_real_lookup(enum cv_real_index i)
{
	void *f = NULL;

#if defined(__x86_64__)
	if (i == CV_REAL_pthread_mutex_lock)
		f = if_of_libc((void *)libc_mutex_lock);
	else if (i == CV_REAL_pthread_mutex_trylock)
		f = if_of_libc((void *)libc_mutex_trylock);
	else if (i == CV_REAL_pthread_mutex_unlock)
		f = if_of_libc((void *)libc_mutex_unlock);
	if (!f && names[i].version)
		f = dlvsym(RTLD_NEXT, names[i].name, names[i].version);
#endif
	if (!f)
		f = dlsym(RTLD_NEXT, names[i].name);
	__atomic_store_n(&cv_real_table[i], f, __ATOMIC_RELAXED);
	return f;
}

const char *cv_real_name(enum cv_real_index i)
{
	return names[i].name;
}

void cv_real_init(void)
{
	/* not OpenMP's functions: cv_library.h */
	for (int i = 0; i < CV_REAL_GOMP_parallel; i++)
		if (!cv_real_table[i])
			cv_real_lookup((enum cv_real_index)i);
}
