/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. What is here runs once a process, or where a system call is being made
 * anyway. */
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>

#include "cv_attach.h"
#include "cv_frames.h"
#include "cv_library.h"
#include "cv_modules.h"
#include "cv_mutex.h"
#include "cv_object.h"
#include "cv_process.h"
#include "cv_real.h"
#include "cv_sandbox.h"
#include "cv_thread.h"
#include "cv_trace.h"

#include "cv_banned.h"

extern char **environ;
extern const char cv_text_begin[] __asm__("__executable_start") __attribute__((weak, visibility("hidden")));

/* ---- start ---- */

const char *cv_session_env(char *const *env)
{
	for (; env && *env; env++)
		if (strncmp(*env, CV_SESSION_ENV, CV_SESSION_ENV_LEN) == 0)
			return *env + CV_SESSION_ENV_LEN;
	return NULL;
}

static long read_file(const char *path, void *buf, size_t size)
{
	long fd = cv_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	long n;

	if (fd < 0)
		return fd;
	n = cv_syscall(SYS_read, fd, (long)buf, (long)size, 0, 0, 0);
	cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return n;
}

static bool session_load(const char *dir)
{
	char path[sizeof(cv_session_dir) + 16];
	size_t n = dir ? strlen(dir) : 0;

	if (n == 0 || n >= sizeof(cv_session_dir))
		return false;
	memcpy(cv_session_dir, dir, n + 1);
	memcpy(path, dir, n);
	memcpy(path + n, "/session", 9);
	return read_file(path, &cv_session, sizeof(cv_session)) == sizeof(cv_session) &&
	       cv_session.magic == CV_SESSION_MAGIC && cv_session.version == CV_ABI_VERSION &&
	       cv_session.sample_period > 0 && cv_session.stack_depth > 0;
}

static void describe(struct cv_arena *a)
{
	struct cv_mapping own;
	long n = cv_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)a->exe, sizeof(a->exe) - 1, 0,
			    0);

	a->exe[n > 0 ? n : 0] = '\0';
	n = read_file("/proc/self/cmdline", a->cmdline, sizeof(a->cmdline) - 1);
	a->argc_bytes = n > 0 ? (uint32_t)n : 0;
	if (cv_mapping_find((uint64_t)(uintptr_t)&describe, &own)) {
		a->agent_base = own.lo;
		a->agent_end = own.hi;
	}
}

/* An arena is open: take up recording. `t` is the calling thread's record. */
static void begin(struct cv_thread *t)
{
	struct cv_arena *a = cv_arena;

	describe(a);
	a->inline_mutex = cv_mutex_init(t);
	a->state = CV_PROCESS_RUNNING;
	__atomic_store_n(&a->magic, CV_ARENA_MAGIC, __ATOMIC_RELEASE);
	CV_TRACE(cv_trace_begin());
	CV_EVENT(cv_events_begin());
	CV_CAUSAL(cv_causal_begin());
}

void cv_process_forked(void)
{
	int saved = errno;

	if (!cv_arena)
		return;
	CV_CAUSAL(cv_causal_forked());
	if (cv_attach_forked()) {
		errno = saved;
		return;
	}
	CV_TRACE(cv_trace_forked());
	CV_EVENT(cv_events_forked());
	cv_threads_reset();
	if (cv_is_quiet()) {
		cv_drop(CV_DROP_FORK_UNRECORDED); /* still the parent's header */
		cv_arena = NULL;
	} else if (cv_arena_open(true)) {
		cv_objects_reset();
		cv_frames_reset();
		cv_modules_reset();
		cv_modules_rescan();
		begin(cv_thread_register());
	} else {
		cv_arena = NULL; /* it may still be the parent's */
	}
	errno = saved;
}

/* The two of libc's ways to fork that run no atfork handlers. */

CV_EXPORT pid_t _Fork(void)
{
	pid_t pid;

	CV_LEAVES(CV_END_PROCESS);
	pid = cv_real(_Fork)();
	if (pid == 0)
		cv_process_forked();
	return pid;
}

struct clone_start {
	int (*fn)(void *);
	void *arg;
};

static int clone_main(void *start)
{
	struct clone_start s = *(struct clone_start *)start;

	cv_process_forked();
	return s.fn(s.arg);
}

/* By its symbol: the header declares it with "...", which is the same to the caller. Without CLONE_VM the child
 * has a copy of our stack, and what is on it. */
CV_EXPORT int cv_clone(int (*fn)(void *), void *stack, int flags, void *arg, void *parent_tid, void *tls,
		       void *child_tid) __asm__("clone");
CV_EXPORT int cv_clone(int (*fn)(void *), void *stack, int flags, void *arg, void *parent_tid, void *tls,
		       void *child_tid)
{
	struct clone_start start = { fn, arg };

	CV_LEAVES(CV_END_PROCESS);
	if (!cv_arena || !fn || flags & CLONE_VM)
		return cv_real(clone)(fn, stack, flags, arg, parent_tid, tls, child_tid);
	return cv_real(clone)(clone_main, stack, flags, &start, parent_tid, tls, child_tid);
}

__attribute__((constructor(101))) static void start(void)
{
	int saved = errno;

	cv_real_init();
	cv_libraries_init();
	if (session_load(cv_session_env(environ)) && cv_threads_init(false) && cv_arena_open(false)) {
		pthread_atfork(NULL, NULL, cv_process_forked);
		cv_modules_rescan();
		begin(cv_thread_register());
	}
	errno = saved;
}

/* The calling thread is borrowed and on a stack that is not its own: like all others it gets its
 * record at its first operation. */
bool cv_process_attach(const char *dir, bool again)
{
	static struct cv_thread caller;

	if (!session_load(dir) || (!again && !cv_threads_init(true)))
		return false;
	cv_arena_close();
	cv_threads_reset();
	cv_objects_reset();
	cv_frames_reset();
	cv_modules_reset();
	if (!cv_arena_open(false))
		return false;
	if (!again)
		pthread_atfork(NULL, NULL, cv_process_forked);
	cv_modules_rescan();
	caller.tid = (uint32_t)cv_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	begin(&caller);
	return true;
}

/* ---- end ---- */

bool cv_process_own(void)
{
	return cv_arena && !cv_is_quiet() && (uint32_t)cv_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) == cv_arena->pid;
}

static void process_ends(enum cv_process_state how, int status)
{
	if (cv_arena->end_ns)
		return;
	cv_threads_snapshot();
	cv_arena->exit_status = (uint32_t)status;
	cv_arena->end_ns = cv_now();
	__atomic_store_n(&cv_arena->state, (uint32_t)how, __ATOMIC_RELEASE);
}

/* exit() runs this after the program's own handlers; the others end without them. */
__attribute__((destructor(101))) static void finish(void)
{
	if (cv_attach_is_out())
		return;
	/* the child of a vfork does not come here; a thread without a clock has no record */
	if (cv_is_quiet() ? cv_self != NULL : cv_process_own())
		process_ends(CV_PROCESS_EXITED, 0);
}

CV_EXPORT void _exit(int status)
{
	CV_LEAVES(CV_END_PROCESS);
	if (cv_process_own())
		process_ends(CV_PROCESS_EXITED, status);
	cv_real(_exit)(status);
	__builtin_unreachable();
}

CV_EXPORT void _Exit(int status)
{
	CV_LEAVES(CV_END_PROCESS);
	if (cv_process_own())
		process_ends(CV_PROCESS_EXITED, status);
	cv_real(_Exit)(status);
	__builtin_unreachable();
}

/* ---- unloading ---- */

CV_EXPORT int dlclose(void *handle)
{
	int r = cv_real(dlclose)(handle);
	int saved = errno;

	if (r == 0 && cv_arena)
		cv_modules_unloaded();
	if (r == 0)
		cv_libraries_unloaded();
	CV_TRACE(cv_trace_unloaded());
	errno = saved;
	return r;
}
