/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. exec and spawn: the next image records itself, if its environment lets the agent in. */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "cv_image.h"
#include "cv_process.h"
#include "cv_real.h"
#include "cv_sandbox.h"
#include "cv_thread.h"
#include "cv_trace.h"

#include "cv_banned.h"

extern char **environ;

#define PRELOAD_ENV "LD_PRELOAD="
#define PRELOAD_ENV_LEN (sizeof(PRELOAD_ENV) - 1)
#define AGENT "libconvoy" /* the file's name begins so */
#define PLATFORM "$PLATFORM/" /* glibc's loader makes a directory of it, and others find no file */
#define PLATFORM_LEN (sizeof(PLATFORM) - 1)
#define PATH_BYTES 1024

static bool ends_path(char c)
{
	return c == '\0' || c == ':' || c == ' ';
}

/* The agent's path in a list of preloads, as long as *n; NULL = it is not there. */
static const char *agent_in(const char *list, size_t *n)
{
	for (const char *path = list; *path; path += *n + !!path[*n]) {
		bool found = false;

		for (*n = 0; !ends_path(path[*n]); ++*n)
			found = found || strncmp(path + *n, AGENT, sizeof(AGENT) - 1) == 0;
		if (found)
			return path;
	}
	return NULL;
}

/* The agent's path in an environment that also names a session. */
static const char *agent_of(char *const *env, size_t *n)
{
	bool session = cv_session_env(env) != NULL;

	for (; session && env && *env; env++)
		if (strncmp(*env, PRELOAD_ENV, PRELOAD_ENV_LEN) == 0)
			return agent_in(*env + PRELOAD_ENV_LEN, n);
	return NULL;
}

/* Can the agent's file be reached from here? Not after a chroot. *platform: will only a loader that can
 * load it find it? */
static bool is_reachable(const char *agent, size_t n, bool *platform)
{
	char path[PATH_BYTES];
	size_t to = 0;

	*platform = false;
	for (size_t i = 0; i < n && to < sizeof(path) - 1;) {
		if (n - i > PLATFORM_LEN && strncmp(agent + i, PLATFORM, PLATFORM_LEN) == 0) {
			*platform = true;
			i += PLATFORM_LEN;
		} else {
			path[to++] = agent[i++];
		}
	}
	path[to] = '\0';
	return cv_syscall(SYS_faccessat, AT_FDCWD, (long)path, 0, 0, 0, 0) == 0;
}

/* The program that is about to be started. */
struct next {
	int lost;     /* enum cv_drop that is counted for it; NONE */
	bool without; /* its environment must not name the agent */
};

#define NONE (-1)

/* `name`: of the file, NULL = it is open as `fd`. */
static struct next next_of(const char *name, bool search, int fd, char *const *env)
{
	struct next next = { NONE, false };
	enum cv_image image;
	const char *agent;
	bool platform;
	size_t n = 0;

	if (!cv_arena)
		return next;
	/* In a sandbox the next image's agent could do nothing but harm, as the filter stays. */
	if (cv_is_quiet())
		return (struct next){ CV_DROP_EXEC_WITHOUT_AGENT, true };
	agent = agent_of(env, &n);
	if (!agent)
		return (struct next){ CV_DROP_EXEC_WITHOUT_AGENT, false };
	if (!is_reachable(agent, n, &platform))
		return (struct next){ CV_DROP_EXEC_WITHOUT_AGENT, true };
	image = name ? cv_image_of(name, search) : cv_image_of_fd(fd);
	if (image != CV_IMAGE_LOADS)
		next = (struct next){ CV_DROP_EXEC_UNLOADABLE, image == CV_IMAGE_REFUSES || !platform };
	return next;
}

static void exec_begins(const struct next *next)
{
	if (!cv_arena)
		return;
	if (next->lost != NONE)
		cv_drop((enum cv_drop)next->lost);
	if (cv_process_own()) {
		cv_threads_snapshot();
		__atomic_store_n(&cv_arena->state, CV_PROCESS_EXECED, __ATOMIC_RELEASE);
		cv_arena->end_ns = cv_now();
	}
}

static void exec_failed(const struct next *next)
{
	if (cv_arena && next->lost != NONE) /* nothing was lost */
		__atomic_fetch_sub(&cv_arena->drops[next->lost], 1, __ATOMIC_RELAXED);
	if (cv_process_own()) {
		cv_arena->end_ns = 0;
		__atomic_store_n(&cv_arena->state, CV_PROCESS_RUNNING, __ATOMIC_RELEASE);
	}
}

#define EXEC(next, call)           \
	({                         \
		int saved_, r_;    \
		exec_begins(next); \
		r_ = (call);       \
		saved_ = errno;    \
		exec_failed(next); \
		errno = saved_;    \
		r_;                \
	})

#define ENV_MOST 1024

/* An environment without agent and session. */
struct rest {
	char *variables[ENV_MOST];
	char preload[PATH_BYTES]; /* what the user preloads */
};

/* LD_PRELOAD without the agent; NULL = nothing is left. As it is, if it is too long for `room`. */
static char *preload_without(char *variable, char room[PATH_BYTES])
{
	size_t n, before, after, all = strlen(variable);
	const char *agent = agent_in(variable + PRELOAD_ENV_LEN, &n);

	if (!agent || all >= PATH_BYTES)
		return variable;
	before = (size_t)(agent - variable);
	after = before + n + (agent[n] != '\0');
	if (before > PRELOAD_ENV_LEN && agent[n] == '\0')
		before--; /* the colon */
	if (before == PRELOAD_ENV_LEN && after == all)
		return NULL;
	memcpy(room, variable, before);
	memcpy(room + before, variable + after, all - after + 1);
	return room;
}

/* `env` itself if it has more variables than there is room for. */
static CV_NOINLINE char *const *env_without_agent(struct rest *rest, char *const *env)
{
	size_t n = 0;

	for (char *const *v = env; v && *v; v++) {
		char *variable = *v;

		if (strncmp(variable, CV_SESSION_ENV, CV_SESSION_ENV_LEN) == 0)
			continue;
		if (strncmp(variable, PRELOAD_ENV, PRELOAD_ENV_LEN) == 0)
			variable = preload_without(variable, rest->preload);
		if (n == ENV_MOST - 1)
			return env;
		if (variable)
			rest->variables[n++] = variable;
	}
	rest->variables[n] = NULL;
	return rest->variables;
}

static CV_NOINLINE int execve_without(const struct next *next, const char *path, char *const *argv, char *const *env)
{
	struct rest rest;

	env = env_without_agent(&rest, env);
	return EXEC(next, cv_real(execve)(path, argv, env));
}

static CV_NOINLINE int execvpe_without(const struct next *next, const char *file, char *const *argv, char *const *env)
{
	struct rest rest;

	env = env_without_agent(&rest, env);
	return EXEC(next, cv_real(execvpe)(file, argv, env));
}

static CV_NOINLINE int fexecve_without(const struct next *next, int fd, char *const *argv, char *const *env)
{
	struct rest rest;

	env = env_without_agent(&rest, env);
	return EXEC(next, cv_real(fexecve)(fd, argv, env));
}

CV_EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	struct next next;

	CV_LEAVES(CV_END_PROCESS);
	next = next_of(path, false, -1, env);
	if (next.without)
		return execve_without(&next, path, argv, env);
	return EXEC(&next, cv_real(execve)(path, argv, env));
}

CV_EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
	struct next next;

	CV_LEAVES(CV_END_PROCESS);
	next = next_of(file, true, -1, env);
	if (next.without)
		return execvpe_without(&next, file, argv, env);
	return EXEC(&next, cv_real(execvpe)(file, argv, env));
}

CV_EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
	struct next next;

	CV_LEAVES(CV_END_PROCESS);
	next = next_of(NULL, false, fd, env);
	if (next.without)
		return fexecve_without(&next, fd, argv, env);
	return EXEC(&next, cv_real(fexecve)(fd, argv, env));
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

#define SPAWN(name, search)                                                                                       \
	static CV_NOINLINE int name##_without(pid_t *pid, const char *what,                                       \
					      const posix_spawn_file_actions_t *actions,                          \
					      const posix_spawnattr_t *attr, char *const argv[], char *const env[]) \
	{                                                                                                         \
		struct rest rest;                                                                                 \
		return cv_real(name)(pid, what, actions, attr, argv, (char **)env_without_agent(&rest, env));     \
	}                                                                                                         \
	CV_EXPORT int name(pid_t *pid, const char *what, const posix_spawn_file_actions_t *actions,               \
			   const posix_spawnattr_t *attr, char *const argv[], char *const env[])                  \
	{                                                                                                         \
		struct next next;                                                                                 \
		int r;                                                                                            \
                                                                                                                  \
		CV_LEAVES(CV_END_PROCESS);                                                                        \
		next = next_of(what, search, -1, env);                                                            \
		r = next.without ? name##_without(pid, what, actions, attr, argv, env) :                          \
				   cv_real(name)(pid, what, actions, attr, argv, env);                            \
		if (r == 0 && next.lost != NONE)                                                                  \
			cv_drop((enum cv_drop)next.lost);                                                         \
		return r;                                                                                         \
	}
SPAWN(posix_spawn, false)
SPAWN(posix_spawnp, true)
