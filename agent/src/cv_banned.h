/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Names that no agent file may utter (cv_agent.h, rule 4): each of them allocates, takes a lock or
 * buffers. Include it last; the system's headers are full of them.
 */
#ifndef CV_BANNED_H
#define CV_BANNED_H

#pragma GCC poison malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign valloc
#pragma GCC poison strdup strndup asprintf vasprintf
#pragma GCC poison printf fprintf dprintf sprintf snprintf vprintf vfprintf vdprintf vsprintf vsnprintf
#pragma GCC poison puts fputs putc fputc putchar fwrite fread fopen fdopen freopen fclose fflush fgets getline
#pragma GCC poison scanf fscanf sscanf perror strerror syslog
#pragma GCC poison getenv setenv unsetenv putenv localtime gmtime strftime setlocale
#pragma GCC poison opendir readdir qsort bsearch backtrace backtrace_symbols abort assert
#pragma GCC poison dl_iterate_phdr dladdr

#endif
