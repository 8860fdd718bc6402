/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. exec and spawn: the next image records itself, if its environment lets the agent in. */
#include <stdarg.h>

#include "cv_process.h"
#include "cv_real.h"
#include "cv_sandbox.h"
#include "cv_thread.h"
#include "cv_trace.h"

#include "cv_banned.h"

extern char **environ;

#define PRELOAD_ENV "LD_PRELOAD="
#define AGENT "libconvoy" /* the file's name begins so */

/* Will the next image's agent be loaded, and have a session? */
static bool lets_agent_in(char *const *env)
{
	bool session = cv_session_env(env) != NULL;

	for (; session && env && *env; env++)
		if (strncmp(*env, PRELOAD_ENV, sizeof(PRELOAD_ENV) - 1) == 0)
			for (const char *c = *env; *c; c++)
				if (strncmp(c, AGENT, sizeof(AGENT) - 1) == 0)
					return true;
	return false;
}

static void exec_begins(char *const *env)
{
	if (!cv_arena)
		return;
	if (!lets_agent_in(env))
		cv_drop(CV_DROP_EXEC_WITHOUT_AGENT);
	if (cv_process_own()) {
		cv_threads_snapshot();
		__atomic_store_n(&cv_arena->state, CV_PROCESS_EXECED, __ATOMIC_RELEASE);
		cv_arena->end_ns = cv_now();
	}
}

static void exec_failed(char *const *env)
{
	if (cv_arena && !lets_agent_in(env)) /* nothing was lost */
		__atomic_fetch_sub(&cv_arena->drops[CV_DROP_EXEC_WITHOUT_AGENT], 1, __ATOMIC_RELAXED);
	if (cv_process_own()) {
		cv_arena->end_ns = 0;
		__atomic_store_n(&cv_arena->state, CV_PROCESS_RUNNING, __ATOMIC_RELEASE);
	}
}

#define EXEC(env, call)          \
	({                       \
		int saved_, r_;  \
		exec_begins(env); \
		r_ = (call);     \
		saved_ = errno;  \
		exec_failed(env); \
		errno = saved_;  \
		r_;              \
	})

/* In a sandbox the next image's agent could do nothing but harm, as the filter stays: leave it out. */

#define ENV_MOST 1024

static size_t env_without_session(char **to, char *const *env)
{
	size_t n = 0;

	for (; env && *env && n < ENV_MOST; env++)
		if (strncmp(*env, CV_SESSION_ENV, CV_SESSION_ENV_LEN) != 0)
			to[n++] = *env;
	to[n < ENV_MOST ? n : 0] = NULL;
	return n;
}

/* Make `call` with `env`, or with what is left of it. */
#define QUIET_EXEC(env, call)                                   \
	({                                                      \
		char *left_[ENV_MOST];                          \
		if (env_without_session(left_, env) < ENV_MOST) \
			env = left_;                            \
		EXEC(env, call);                                \
	})

static CV_NOINLINE int execve_quiet(const char *path, char *const *argv, char *const *env)
{
	return QUIET_EXEC(env, cv_real(execve)(path, argv, env));
}

static CV_NOINLINE int execvpe_quiet(const char *file, char *const *argv, char *const *env)
{
	return QUIET_EXEC(env, cv_real(execvpe)(file, argv, env));
}

static CV_NOINLINE int fexecve_quiet(int fd, char *const *argv, char *const *env)
{
	return QUIET_EXEC(env, cv_real(fexecve)(fd, argv, env));
}

CV_EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	CV_LEAVES(CV_END_PROCESS);
	if (cv_is_quiet())
		return execve_quiet(path, argv, env);
	return EXEC(env, cv_real(execve)(path, argv, env));
}

CV_EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
	CV_LEAVES(CV_END_PROCESS);
	if (cv_is_quiet())
		return execvpe_quiet(file, argv, env);
	return EXEC(env, cv_real(execvpe)(file, argv, env));
}

CV_EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
	CV_LEAVES(CV_END_PROCESS);
	if (cv_is_quiet())
		return fexecve_quiet(fd, argv, env);
	return EXEC(env, cv_real(fexecve)(fd, argv, env));
}

CV_EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

CV_EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

/* Arguments as an array, on the caller's stack as in the C library. `ap` is left behind the NULL that ends them. */
#define GATHER(argv, first, ap)                                                \
	do {                                                                   \
		size_t n_ = 1;                                                 \
		va_start(ap, first);                                           \
		while (va_arg(ap, const char *))                               \
			n_++;                                                  \
		va_end(ap);                                                    \
		(argv) = __builtin_alloca((n_ + 1) * sizeof(*(argv)));         \
		va_start(ap, first);                                           \
		(argv)[0] = (char *)(uintptr_t)(first);                        \
		for (size_t i_ = 1; (argv)[i_ - 1] && i_ <= n_; i_++)          \
			(argv)[i_] = va_arg(ap, char *);                       \
	} while (0)

CV_EXPORT int execl(const char *path, const char *first, ...)
{
	char **argv;
	va_list ap;

	GATHER(argv, first, ap);
	va_end(ap);
	return execve(path, argv, environ);
}

CV_EXPORT int execlp(const char *file, const char *first, ...)
{
	char **argv;
	va_list ap;

	GATHER(argv, first, ap);
	va_end(ap);
	return execvpe(file, argv, environ);
}

CV_EXPORT int execle(const char *path, const char *first, ...)
{
	char *const *env;
	char **argv;
	va_list ap;

	GATHER(argv, first, ap);
	env = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, env);
}

static void spawning(char *const *env)
{
	if (cv_arena && !lets_agent_in(env))
		cv_drop(CV_DROP_EXEC_WITHOUT_AGENT);
}

#define SPAWN(name)                                                                                             \
	static CV_NOINLINE int name##_quiet(pid_t *pid, const char *what, const posix_spawn_file_actions_t *actions, \
					    const posix_spawnattr_t *attr, char *const argv[], char *const env[]) \
	{                                                                                                       \
		char *left[ENV_MOST];                                                                           \
		if (env_without_session(left, env) < ENV_MOST)                                                  \
			env = left;                                                                             \
		spawning(env);                                                                                  \
		return cv_real(name)(pid, what, actions, attr, argv, env);                                      \
	}                                                                                                       \
	CV_EXPORT int name(pid_t *pid, const char *what, const posix_spawn_file_actions_t *actions,             \
			   const posix_spawnattr_t *attr, char *const argv[], char *const env[])                \
	{                                                                                                       \
		CV_LEAVES(CV_END_PROCESS);                                                                      \
		if (cv_is_quiet())                                                                              \
			return name##_quiet(pid, what, actions, attr, argv, env);                               \
		spawning(env);                                                                                  \
		return cv_real(name)(pid, what, actions, attr, argv, env);                                      \
	}
SPAWN(posix_spawn)
SPAWN(posix_spawnp)
