/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Start of recording in a process that runs already. Agent rules: cv_agent.h. convoy loads the
 * library by a call of dlopen in a thread at a safe point, calls convoy_attach() in it, and then
 * patches the entries of the functions listed here, from outside: nothing here writes code, but
 * for a fork child, which has one thread only.
 */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "convoy_attach.h"
#include "cv_arena.h"
#include "cv_attach.h"
#include "cv_process.h"
#include "cv_real.h"
#include "cv_thread.h"

#include "cv_banned.h"

/* Functions whose entries are patched. Not among them, though the agent exports hooks for them:
 *  - those that libc calls itself for another one of the list with the same meaning (call_once),
 *  - _Fork and clone: fork() calls _Fork in a state in which the loader's locks are not valid, and
 *    the gate of the journal keeps all children out,
 *  - exec and posix_spawn: what an attached process starts is not followed,
 *  - OpenMP's: its library is not the C library. */
#define HOOKED(X)                                                                            \
	X(pthread_mutex_lock) X(pthread_mutex_trylock) X(pthread_mutex_timedlock)            \
	X(pthread_mutex_clocklock) X(pthread_mutex_unlock) X(pthread_mutex_init)             \
	X(pthread_mutex_destroy) X(pthread_rwlock_init) X(pthread_rwlock_destroy)            \
	X(pthread_rwlock_rdlock) X(pthread_rwlock_wrlock) X(pthread_rwlock_tryrdlock)        \
	X(pthread_rwlock_trywrlock) X(pthread_rwlock_timedrdlock)                            \
	X(pthread_rwlock_timedwrlock) X(pthread_rwlock_clockrdlock)                          \
	X(pthread_rwlock_clockwrlock) X(pthread_rwlock_unlock) X(pthread_spin_init)          \
	X(pthread_spin_lock) X(pthread_spin_trylock) X(pthread_spin_unlock)                  \
	X(pthread_spin_destroy) X(pthread_cond_init) X(pthread_cond_destroy)                 \
	X(pthread_cond_wait) X(pthread_cond_timedwait) X(pthread_cond_clockwait)             \
	X(pthread_cond_signal) X(pthread_cond_broadcast) X(pthread_barrier_init)             \
	X(pthread_barrier_destroy) X(pthread_barrier_wait) X(sem_init) X(sem_destroy)        \
	X(sem_wait) X(sem_trywait) X(sem_timedwait) X(sem_clockwait) X(sem_post)             \
	X(pthread_once) X(pthread_create) X(pthread_join) X(pthread_tryjoin_np)              \
	X(pthread_timedjoin_np) X(pthread_clockjoin_np) X(pthread_detach)                    \
	X(pthread_setname_np) X(thrd_create) X(thrd_join) X(mtx_init) X(mtx_destroy)         \
	X(cnd_init) X(cnd_destroy) X(dlclose) X(_exit)

/* The agent does these by itself and has no slot for the real ones. */
#define REPLACED(X) \
	X(mtx_lock) X(mtx_timedlock) X(mtx_trylock) X(mtx_unlock) X(cnd_wait) X(cnd_timedwait) \
	X(cnd_signal) X(cnd_broadcast) X(syscall) X(prctl)

/* Experiments need these as well. Other sleeps of the C library end in clock_nanosleep (since
 * 2.31), and would be counted twice. */
#ifdef CV_EXPERIMENTS
#define HOOKED_TOO(X) \
	X(clock_nanosleep) X(sigaction) X(signal) X(ssignal) X(bsd_signal) X(sysv_signal) X(sigset)
#else
#define HOOKED_TOO(X)
#endif

#define INDEX(name) CV_REAL_##name,
static const uint16_t hooked[] = { HOOKED(INDEX) HOOKED_TOO(INDEX) };
#define NAME(name) #name,
static const char *const replaced[] = { REPLACED(NAME) };

CV_EXPORT struct cv_attachment convoy_attachment;

static void entry_add(const char *name, void *function, void **slot)
{
	struct cv_attachment *a = &convoy_attachment;

	if (!function || a->entries == CV_ATTACH_ENTRIES)
		return;
	for (uint32_t i = 0; i < a->entries; i++)
		if (a->entry[i].entry == cv_addr(function))
			return; /* two names of one function */
	a->entry[a->entries++] = (struct cv_attach_entry){
		.name = cv_addr(name),
		.entry = cv_addr(function),
		.slot = cv_addr(slot),
	};
}

static void entries_fill(void)
{
	for (size_t i = 0; i < sizeof(hooked) / sizeof(hooked[0]); i++)
		entry_add(cv_real_name(hooked[i]), cv_real_table[hooked[i]], &cv_real_table[hooked[i]]);
	for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++)
		entry_add(replaced[i], dlsym(RTLD_NEXT, replaced[i]), NULL);
}

/* Called by convoy, in a thread of the program's but on a stack of convoy's, while no function is
 * patched and no thread is inside this copy of the agent. The journal says what came of it.
 * `outside_pid`: see cv_arena.h. */
CV_EXPORT void convoy_attach(const char *session_dir, uint64_t outside_pid);
CV_EXPORT void convoy_attach(const char *session_dir, uint64_t outside_pid)
{
	struct cv_attachment *a = &convoy_attachment;
	int saved = errno;
	bool began;

	cv_outside_pid = (uint32_t)outside_pid;
	began = cv_process_attach(session_dir, a->magic == CV_ATTACHMENT_MAGIC);
	if (began && a->magic != CV_ATTACHMENT_MAGIC) {
		entries_fill();
		a->self_offset = (int64_t)(cv_addr(&cv_self) - cv_addr(__builtin_thread_pointer()));
		a->version = CV_ATTACHMENT_VERSION;
		a->magic = CV_ATTACHMENT_MAGIC;
	}
	a->is_ready = began;
	errno = saved;
}

/* ---- fork ---- */

static void unpatch(const struct cv_attach_entry *e)
{
	uint64_t first = e->entry & ~4095ull, end = (e->entry + CV_PATCH_BYTES + 4095) & ~4095ull;

	if (memcmp((void *)e->entry, e->patched, CV_PATCH_BYTES) != 0)
		return;
	/* Where code may not be written (SELinux), the hook stays and passes every call on. */
	if (cv_syscall(SYS_mprotect, (long)first, (long)(end - first),
		       PROT_READ | PROT_WRITE | PROT_EXEC, 0, 0, 0) < 0)
		return;
	memcpy((void *)e->entry, e->original, CV_PATCH_BYTES);
	cv_syscall(SYS_mprotect, (long)first, (long)(end - first), PROT_READ | PROT_EXEC, 0, 0, 0);
}

bool cv_attach_is_in(void)
{
	return convoy_attachment.magic == CV_ATTACHMENT_MAGIC;
}

bool cv_attach_is_out(void)
{
	const struct cv_attachment *a = &convoy_attachment;

	return a->magic == CV_ATTACHMENT_MAGIC && a->gate &&
	       !__atomic_load_n((const uint32_t *)a->gate, __ATOMIC_RELAXED);
}

/* The arena stays mapped: a signal handler may have forked inside a hook, which goes on after
 * it. */
bool cv_attach_forked(void)
{
	struct cv_attachment *a = &convoy_attachment;

	if (a->magic != CV_ATTACHMENT_MAGIC)
		return false;
	for (uint32_t i = 0; a->state == CV_ATTACHMENT_ACTIVE && i < a->entries; i++)
		unpatch(&a->entry[i]);
	a->state = CV_ATTACHMENT_IDLE;
	cv_threads_reset();
	return true;
}
