/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The C library's functions behind our hooks. cv_real(f) is the real f; it is looked up when the
 * agent starts, or at the first call that comes earlier than that.
 *
 * The list is the single place that says which functions are wrapped: X(name, version, return
 * type, arguments). A version is given where dlsym could pick another one than programs of today
 * are bound to (pthread_cond_*: the ABI changed in glibc 2.3.2).
 */
#ifndef CV_REAL_H
#define CV_REAL_H

#include <semaphore.h>
#include <spawn.h>
#include <sys/resource.h>
#include <threads.h>
#include <time.h>

#include "cv_agent.h"

#if defined(CV_TRACING) || defined(CV_EXPERIMENTS)
struct sigaction;

#define CV_REAL_SIGNALS(X)                                                                                 \
	X(sigaction, NULL, int, (int, const struct sigaction *, struct sigaction *))                       \
	X(signal, NULL, void *, (int, void *))                                                             \
	X(ssignal, NULL, void *, (int, void *))                                                            \
	X(bsd_signal, NULL, void *, (int, void *))                                                         \
	X(sysv_signal, NULL, void *, (int, void *))                                                        \
	X(__sysv_signal, NULL, void *, (int, void *))                                                      \
	X(sigset, NULL, void *, (int, void *))
#endif

#if defined(CV_TRACING)
/* What the tracing build wraps besides. */
#define CV_REAL_TRACED(X)                                                                                  \
	CV_REAL_SIGNALS(X)                                                                                 \
	X(pthread_setcanceltype, NULL, int, (int, int *))                                                  \
	X(munmap, NULL, int, (void *, size_t))                                                             \
	X(mprotect, NULL, int, (void *, size_t, int))                                                      \
	X(pkey_mprotect, NULL, int, (void *, size_t, int, int))                                            \
	X(madvise, NULL, int, (void *, size_t, int))                                                       \
	X(mremap, NULL, void *, (void *, size_t, size_t, int, void *))                                     \
	X(mmap, NULL, void *, (void *, size_t, int, int, int, off_t))
#elif defined(CV_EXPERIMENTS)
/* What the experimenting build wraps besides. */
#define CV_REAL_TRACED(X)                                                                                  \
	CV_REAL_SIGNALS(X)                                                                                 \
	X(nanosleep, NULL, int, (const struct timespec *, struct timespec *))                              \
	X(clock_nanosleep, NULL, int, (clockid_t, int, const struct timespec *, struct timespec *))        \
	X(usleep, NULL, int, (unsigned))                                                                   \
	X(sleep, NULL, unsigned, (unsigned))
#else
#define CV_REAL_TRACED(X)
#endif

#define CV_REAL_LIST(X)                                                                                    \
	X(pthread_mutex_lock, NULL, int, (pthread_mutex_t *))                                              \
	X(pthread_mutex_trylock, NULL, int, (pthread_mutex_t *))                                           \
	X(pthread_mutex_timedlock, NULL, int, (pthread_mutex_t *, const struct timespec *))                \
	X(pthread_mutex_clocklock, NULL, int, (pthread_mutex_t *, clockid_t, const struct timespec *))     \
	X(pthread_mutex_unlock, NULL, int, (pthread_mutex_t *))                                            \
	X(pthread_mutex_init, NULL, int, (pthread_mutex_t *, const pthread_mutexattr_t *))                 \
	X(pthread_mutex_destroy, NULL, int, (pthread_mutex_t *))                                           \
	X(pthread_rwlock_init, NULL, int, (pthread_rwlock_t *, const pthread_rwlockattr_t *))              \
	X(pthread_rwlock_destroy, NULL, int, (pthread_rwlock_t *))                                         \
	X(pthread_rwlock_rdlock, NULL, int, (pthread_rwlock_t *))                                          \
	X(pthread_rwlock_wrlock, NULL, int, (pthread_rwlock_t *))                                          \
	X(pthread_rwlock_tryrdlock, NULL, int, (pthread_rwlock_t *))                                       \
	X(pthread_rwlock_trywrlock, NULL, int, (pthread_rwlock_t *))                                       \
	X(pthread_rwlock_timedrdlock, NULL, int, (pthread_rwlock_t *, const struct timespec *))            \
	X(pthread_rwlock_timedwrlock, NULL, int, (pthread_rwlock_t *, const struct timespec *))            \
	X(pthread_rwlock_clockrdlock, NULL, int, (pthread_rwlock_t *, clockid_t, const struct timespec *)) \
	X(pthread_rwlock_clockwrlock, NULL, int, (pthread_rwlock_t *, clockid_t, const struct timespec *)) \
	X(pthread_rwlock_unlock, NULL, int, (pthread_rwlock_t *))                                          \
	X(pthread_spin_init, NULL, int, (pthread_spinlock_t *, int))                                       \
	X(pthread_spin_lock, NULL, int, (pthread_spinlock_t *))                                            \
	X(pthread_spin_trylock, NULL, int, (pthread_spinlock_t *))                                         \
	X(pthread_spin_unlock, NULL, int, (pthread_spinlock_t *))                                          \
	X(pthread_spin_destroy, NULL, int, (pthread_spinlock_t *))                                         \
	X(pthread_cond_init, "GLIBC_2.3.2", int, (pthread_cond_t *, const pthread_condattr_t *))           \
	X(pthread_cond_destroy, "GLIBC_2.3.2", int, (pthread_cond_t *))                                    \
	X(pthread_cond_wait, "GLIBC_2.3.2", int, (pthread_cond_t *, pthread_mutex_t *))                    \
	X(pthread_cond_timedwait, "GLIBC_2.3.2", int,                                                      \
	  (pthread_cond_t *, pthread_mutex_t *, const struct timespec *))                                  \
	X(pthread_cond_clockwait, NULL, int,                                                               \
	  (pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))                       \
	X(pthread_cond_signal, "GLIBC_2.3.2", int, (pthread_cond_t *))                                     \
	X(pthread_cond_broadcast, "GLIBC_2.3.2", int, (pthread_cond_t *))                                  \
	X(pthread_barrier_init, NULL, int, (pthread_barrier_t *, const pthread_barrierattr_t *, unsigned)) \
	X(pthread_barrier_destroy, NULL, int, (pthread_barrier_t *))                                       \
	X(pthread_barrier_wait, NULL, int, (pthread_barrier_t *))                                          \
	X(sem_init, NULL, int, (sem_t *, int, unsigned))                                                   \
	X(sem_destroy, NULL, int, (sem_t *))                                                               \
	X(sem_wait, NULL, int, (sem_t *))                                                                  \
	X(sem_trywait, NULL, int, (sem_t *))                                                               \
	X(sem_timedwait, NULL, int, (sem_t *, const struct timespec *))                                    \
	X(sem_clockwait, NULL, int, (sem_t *, clockid_t, const struct timespec *))                         \
	X(sem_post, NULL, int, (sem_t *))                                                                  \
	X(pthread_once, NULL, int, (pthread_once_t *, void (*)(void)))                                     \
	X(pthread_create, NULL, int, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))     \
	X(pthread_join, NULL, int, (pthread_t, void **))                                                   \
	X(pthread_tryjoin_np, NULL, int, (pthread_t, void **))                                             \
	X(pthread_timedjoin_np, NULL, int, (pthread_t, void **, const struct timespec *))                  \
	X(pthread_clockjoin_np, NULL, int, (pthread_t, void **, clockid_t, const struct timespec *))       \
	X(pthread_detach, NULL, int, (pthread_t))                                                          \
	X(pthread_setname_np, NULL, int, (pthread_t, const char *))                                        \
	X(thrd_create, NULL, int, (thrd_t *, thrd_start_t, void *))                                        \
	X(thrd_join, NULL, int, (thrd_t, int *))                                                           \
	X(thrd_detach, NULL, int, (thrd_t))                                                                \
	X(mtx_init, NULL, int, (mtx_t *, int))                                                             \
	X(mtx_destroy, NULL, void, (mtx_t *))                                                              \
	X(cnd_init, NULL, int, (cnd_t *))                                                                  \
	X(cnd_destroy, NULL, void, (cnd_t *))                                                              \
	X(call_once, NULL, void, (once_flag *, void (*)(void)))                                            \
	X(dlclose, NULL, int, (void *))                                                                    \
	X(dlopen, NULL, void *, (const char *, int))                                                       \
	X(execve, NULL, int, (const char *, char *const *, char *const *))                                 \
	X(execvpe, NULL, int, (const char *, char *const *, char *const *))                                \
	X(fexecve, NULL, int, (int, char *const *, char *const *))                                         \
	X(posix_spawn, "GLIBC_2.15", int,                                                                  \
	  (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,           \
	   char *const *, char *const *))                                                                  \
	X(posix_spawnp, "GLIBC_2.15", int,                                                                 \
	  (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,           \
	   char *const *, char *const *))                                                                  \
	X(setrlimit, NULL, int, (int, const struct rlimit *))                                              \
	X(prlimit, NULL, int, (pid_t, int, const struct rlimit *, struct rlimit *))                        \
	X(mlockall, NULL, int, (int))                                                                      \
	CV_REAL_TRACED(X)                                                                                  \
	X(_Fork, NULL, pid_t, (void))                                                                      \
	X(clone, NULL, int, (int (*)(void *), void *, int, void *, void *, void *, void *))                \
	X(_exit, NULL, void, (int))                                                                        \
	X(_Exit, NULL, void, (int))                                                                        \
	X(GOMP_parallel, NULL, void, (void (*)(void *), void *, unsigned, unsigned))                       \
	X(GOMP_parallel_sections, NULL, void,                                                              \
	  (void (*)(void *), void *, unsigned, unsigned, unsigned))                                        \
	X(GOMP_parallel_loop_static, NULL, void,                                                           \
	  (void (*)(void *), void *, unsigned, long, long, long, long, unsigned))                          \
	X(GOMP_parallel_loop_dynamic, NULL, void,                                                          \
	  (void (*)(void *), void *, unsigned, long, long, long, long, unsigned))                          \
	X(GOMP_parallel_loop_guided, NULL, void,                                                           \
	  (void (*)(void *), void *, unsigned, long, long, long, long, unsigned))                          \
	X(GOMP_parallel_loop_nonmonotonic_dynamic, NULL, void,                                             \
	  (void (*)(void *), void *, unsigned, long, long, long, long, unsigned))                          \
	X(GOMP_parallel_loop_nonmonotonic_guided, NULL, void,                                              \
	  (void (*)(void *), void *, unsigned, long, long, long, long, unsigned))                          \
	X(GOMP_parallel_loop_runtime, NULL, void,                                                          \
	  (void (*)(void *), void *, unsigned, long, long, long, unsigned))                                \
	X(GOMP_parallel_loop_nonmonotonic_runtime, NULL, void,                                             \
	  (void (*)(void *), void *, unsigned, long, long, long, unsigned))                                \
	X(GOMP_parallel_loop_maybe_nonmonotonic_runtime, NULL, void,                                       \
	  (void (*)(void *), void *, unsigned, long, long, long, unsigned))                                \
	X(GOMP_barrier, NULL, void, (void))                                                                \
	X(GOMP_loop_end, NULL, void, (void))                                                               \
	X(GOMP_sections_end, NULL, void, (void))                                                           \
	X(GOMP_critical_start, NULL, void, (void))                                                         \
	X(GOMP_critical_end, NULL, void, (void))                                                           \
	X(GOMP_critical_name_start, NULL, void, (void **))                                                 \
	X(GOMP_critical_name_end, NULL, void, (void **))                                                   \
	X(GOMP_atomic_start, NULL, void, (void))                                                           \
	X(GOMP_atomic_end, NULL, void, (void))                                                             \
	X(omp_set_lock, NULL, void, (void *))                                                              \
	X(omp_unset_lock, NULL, void, (void *))                                                            \
	X(omp_test_lock, NULL, int, (void *))                                                              \
	X(omp_set_nest_lock, NULL, void, (void *))                                                         \
	X(omp_unset_nest_lock, NULL, void, (void *))                                                       \
	X(omp_test_nest_lock, NULL, int, (void *))

#define CV_REAL_ENUM(name, version, ret, args) CV_REAL_##name,
enum cv_real_index { CV_REAL_LIST(CV_REAL_ENUM) CV_REAL_COUNT };
#undef CV_REAL_ENUM

#define CV_REAL_TYPE(name, version, ret, args) typedef ret(*cv_type_##name) args;
CV_REAL_LIST(CV_REAL_TYPE)
#undef CV_REAL_TYPE

extern void *cv_real_table[CV_REAL_COUNT] __attribute__((visibility("hidden")));
void *cv_real_lookup(enum cv_real_index i);
const char *cv_real_name(enum cv_real_index i);
void cv_real_init(void);

static inline void *cv_real_get(enum cv_real_index i)
{
	void *f = __atomic_load_n(&cv_real_table[i], __ATOMIC_RELAXED);

	return cv_likely(f) ? f : cv_real_lookup(i);
}

#define cv_real(name) ((cv_type_##name)cv_real_get(CV_REAL_##name))

#endif
