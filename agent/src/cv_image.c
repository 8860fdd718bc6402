/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. Runs only where a program is about to be started: system calls are allowed. */
#include <elf.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cv_agent.h"
#include "cv_image.h"

#include "cv_banned.h"

extern char **environ;

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#define COMPANION EM_386 /* 32-bit programs of the same processors */
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#define COMPANION EM_ARM
#endif

#define SCRIPTS_MOST 5 /* the kernel follows so many "#!" lines */
#define HEAD_BYTES 1024 /* headers, and nearly always the loader's path behind them */
#define PATH_BYTES 1024

struct head {
	char bytes[HEAD_BYTES + 1]; /* ends with NUL */
	size_t n;
	int fd;
};

static bool contains(const char *text, const char *part)
{
	size_t n = strlen(part);

	for (; *text; text++)
		if (strncmp(text, part, n) == 0)
			return true;
	return false;
}

/* O_NONBLOCK: what is no regular file cannot be executed, but could make open wait. */
static int open_image(const char *path)
{
	return (int)cv_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0,
			       0);
}

static size_t read_at(int fd, char *to, size_t most, uint64_t at)
{
	long n = cv_syscall(SYS_pread64, fd, (long)to, (long)most, (long)at, 0, 0);

	to[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/* C libraries whose loader may end the program because of a preload. */
static bool is_strict(const char *loader)
{
	return contains(loader, "uClibc") || contains(loader, "/system/bin/linker");
}

static enum cv_image of_loader(const char *loader)
{
	if (is_strict(loader))
		return CV_IMAGE_REFUSES;
	return contains(loader, "ld-musl") ? CV_IMAGE_IGNORES : CV_IMAGE_LOADS;
}

/* A loader that is called by its name, as if it were the program. */
static bool is_loader(const char *name)
{
	return contains(name, "ld-linux") || contains(name, "/ld.so");
}

static enum cv_image of_elf(struct head *head, bool loader)
{
	Elf64_Ehdr file;
	Elf64_Phdr part;

	if (head->n < sizeof(file))
		return CV_IMAGE_LOADS;
	memcpy(&file, head->bytes, sizeof(file));
	if (file.e_ident[EI_DATA] != ELFDATA2LSB)
		return CV_IMAGE_REFUSES;
	if (file.e_ident[EI_CLASS] == ELFCLASS32) /* e_machine is in the same place */
		return file.e_machine == COMPANION ? CV_IMAGE_IGNORES : CV_IMAGE_REFUSES;
	if (file.e_machine != MACHINE)
		return CV_IMAGE_REFUSES;
	for (size_t i = 0; i < file.e_phnum; i++) {
		uint64_t at = file.e_phoff + i * file.e_phentsize;

		if (at > head->n || head->n - at < sizeof(part))
			return CV_IMAGE_LOADS; /* an unusual file */
		memcpy(&part, head->bytes + at, sizeof(part));
		if (part.p_type != PT_INTERP)
			continue;
		if (part.p_offset < head->n && part.p_filesz <= head->n - part.p_offset)
			return of_loader(head->bytes + part.p_offset);
		head->n = read_at(head->fd, head->bytes, HEAD_BYTES, part.p_offset);
		return of_loader(head->bytes);
	}
	return loader ? CV_IMAGE_LOADS : CV_IMAGE_IGNORES; /* static */
}

/* The interpreter of a script, NULL = none. It stays in `head`. */
static const char *interpreter(struct head *head)
{
	char *from = head->bytes + 2, *to;

	if (head->bytes[0] != '#' || head->bytes[1] != '!')
		return NULL;
	while (*from == ' ' || *from == '\t')
		from++;
	for (to = from; *to && *to != ' ' && *to != '\t' && *to != '\n' && *to != '\r'; to++)
		;
	*to = '\0';
	return to > from ? from : NULL;
}

/* Closes `fd`. */
static enum cv_image of_open(int fd, const char *name)
{
	enum cv_image image = CV_IMAGE_LOADS;
	struct head head;

	for (int i = 0; i <= SCRIPTS_MOST && fd >= 0; i++) {
		bool loader = is_loader(name); /* it may lie in `head` */

		head.fd = fd;
		head.n = read_at(fd, head.bytes, HEAD_BYTES, 0);
		if (head.n > SELFMAG && memcmp(head.bytes, ELFMAG, SELFMAG) == 0) {
			image = of_elf(&head, loader);
			break;
		}
		name = interpreter(&head);
		cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
		fd = name ? open_image(name) : -1;
	}
	if (fd >= 0)
		cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return image;
}

static const char *path_variable(void)
{
	for (char **env = environ; env && *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return "/bin:/usr/bin";
}

/* As execvp does it: the first file of that name in PATH that may be executed. */
static int open_in_path(const char *name, char path[PATH_BYTES])
{
	size_t length = strlen(name);

	for (const char *dir = path_variable();; dir++) {
		size_t n = 0;

		while (dir[n] && dir[n] != ':')
			n++;
		if (n + 1 + length < PATH_BYTES) {
			memcpy(path, dir, n);
			path[n] = '/'; /* an empty part is the current directory */
			memcpy(path + n + (n > 0), name, length + 1);
			if (cv_syscall(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0) == 0)
				return open_image(path);
		}
		dir += n;
		if (!*dir)
			return -1;
	}
}

enum cv_image cv_image_of(const char *name, bool search)
{
	char path[PATH_BYTES];

	/* Without a search only the kernel may look at `name`, which may be anything. */
	if (search && !*name)
		return CV_IMAGE_LOADS;
	for (const char *c = name; search && *c; c++)
		search = *c != '/';
	return of_open(search ? open_in_path(name, path) : open_image(name), name);
}

enum cv_image cv_image_of_fd(int fd)
{
	/* A descriptor of its own: that one may be moved by another thread, and stays open. */
	int own = (int)cv_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0, 0, 0, 0);

	return of_open(own, "");
}
