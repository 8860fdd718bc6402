/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Agent rules: cv_agent.h. The few memory and string functions that the agent uses, and that the compiler calls
 * on its own. The program's may be anything: sanitizers replace them by functions that crash before
 * their start-up and check arguments against the program's rules. Hidden, so that only the agent
 * itself gets them.
 */
#include "cv_agent.h"

#include "cv_banned.h"

#define HIDDEN __attribute__((visibility("hidden"), used))

/* Keeps the compiler from seeing that a loop is the function that it is in. */
#define OPAQUE() __asm__ volatile("")

typedef uint64_t __attribute__((may_alias, aligned(1))) word;

HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	for (; n >= sizeof(word); n -= sizeof(word), t += sizeof(word), f += sizeof(word)) {
		*(word *)t = *(const word *)f;
		OPAQUE();
	}
	for (; n; n--) {
		*t++ = *f++;
		OPAQUE();
	}
	return to;
}

HIDDEN void *memmove(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	if (t < f) {
		for (size_t i = 0; i < n; i++) {
			t[i] = f[i];
			OPAQUE();
		}
	} else {
		while (n--) {
			t[n] = f[n];
			OPAQUE();
		}
	}
	return to;
}

HIDDEN void *memset(void *to, int byte, size_t n)
{
	word w = 0x0101010101010101ull * (unsigned char)byte;
	unsigned char *t = to;

	for (; n >= sizeof(w); n -= sizeof(w), t += sizeof(w)) {
		*(word *)t = w;
		OPAQUE();
	}
	for (; n; n--) {
		*t++ = (unsigned char)byte;
		OPAQUE();
	}
	return to;
}

HIDDEN int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;

	for (; n >= sizeof(word) && *(const word *)x == *(const word *)y; n -= sizeof(word)) {
		x += sizeof(word);
		y += sizeof(word);
	}
	for (; n; n--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

HIDDEN size_t strnlen(const char *s, size_t most)
{
	size_t n = 0;

	while (n < most && s[n]) {
		n++;
		OPAQUE();
	}
	return n;
}

HIDDEN size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n]) {
		n++;
		OPAQUE();
	}
	return n;
}

HIDDEN int strncmp(const char *a, const char *b, size_t n)
{
	for (; n; n--, a++, b++)
		if (*a != *b || !*a)
			return (unsigned char)*a - (unsigned char)*b;
	return 0;
}

HIDDEN int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, SIZE_MAX);
}
