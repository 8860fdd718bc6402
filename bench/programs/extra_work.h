/*
 * Work in real programs whose amount an environment variable says: more of it when they start, less
 * for the truth of an experiment. `bench/lib/causal_sources.py` puts it in.
 */
#ifndef EXTRA_WORK_H
#define EXTRA_WORK_H

#include <stdlib.h>

/* How often, or how much: a variable of the program that has the value of the environment's. */
#define FROM_ENVIRONMENT(name, otherwise)                                                          \
	static unsigned long name = otherwise;                                                     \
	__attribute__((constructor)) static void name##_read(void)                                 \
	{                                                                                          \
		const char *value = getenv(#name);                                                 \
                                                                                                   \
		name = value ? strtoul(value, NULL, 10) : name;                                    \
	}

/* A function `name` of `name`_links dependent multiplications, about a nanosecond each. */
#define EXTRA_WORK(name)                                                                           \
	FROM_ENVIRONMENT(name##_links, 0)                                                          \
	__attribute__((noipa)) static void name(void)                                              \
	{                                                                                          \
		unsigned long x = 1;                                                               \
                                                                                                   \
		for (unsigned long links = name##_links; links; links--) {                         \
			x = x * 0x9e3779b97f4a7c15u + 1;                                           \
			__asm__ volatile("" : "+r"(x));                                            \
		}                                                                                  \
	}

#endif
