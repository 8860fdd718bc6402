/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * host NAME DIR [WAY]: runs a case natively, single-stepped and translated, each in a child of the same state, and
 * writes what they left: DIR/native, DIR/step, DIR/translated. host --list: the names.
 *
 * Everything that plays the agent lies in the section agent_text: control that reaches it leaves translated code.
 */
#include <cpuid.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "cv_translate.h"
#include "host.h"
#include "play.h"

#define STEP_BYTES (1ull << 30)

struct step { /* the state before an instruction; behind it 32 vector registers and 8 masks if `vectors` */
	uint64_t rip, registers[16], fs, gs, flags;
	uint8_t code[16];
	uint64_t vectors;
};

static uint8_t *result;
static struct { uint8_t *base, *at; } steps;
static bool stepping;
static unsigned area_of[8]; /* offsets of the parts of an xsave area */

/* ---- the stepper ------------------------------------------------------------------------ */

static void copy_vectors(uint8_t *to, const uint8_t *area)
{
	uint64_t parts = *(const uint64_t *)(area + 512);

	memset(to, 0, 32 * 64 + 64);
	for (int i = 0; i < 32; i++) {
		uint8_t *z = to + i * 64;

		if (i < 16) {
			memcpy(z, area + 160 + i * 16, 16);
			if (parts & 4)
				memcpy(z + 16, area + area_of[2] + i * 16, 16);
			if (parts & 64)
				memcpy(z + 32, area + area_of[6] + i * 32, 32);
		} else if (parts & 128) {
			memcpy(z, area + area_of[7] + (i - 16) * 64, 64);
		}
	}
	if (parts & 32)
		memcpy(to + 32 * 64, area + area_of[5], 64);
}

/* VEX and EVEX, and maskmovq: what may have lanes. */
static bool has_lanes(const uint8_t *code)
{
	while (*code == 0x64 || *code == 0x65 || *code == 0x67 || *code == 0x66 || *code == 0x3e)
		code++;
	if ((*code & 0xf0) == 0x40)
		code++;
	return *code == 0xc4 || *code == 0xc5 || *code == 0x62 || (code[0] == 0x0f && code[1] == 0xf7);
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	static const int order[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
				       REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };
	ucontext_t *u = context;
	greg_t *g = u->uc_mcontext.gregs;
	struct step *s = (struct step *)steps.at;

	(void)sig;
	(void)info;
	if (!stepping) {
		g[REG_EFL] &= ~0x100ll;
		return;
	}
	if (host_is_agent((uint64_t)g[REG_RIP]))
		return;
	if (steps.at + 4096 > steps.base + STEP_BYTES)
		abort();
	s->rip = (uint64_t)g[REG_RIP];
	for (int i = 0; i < 16; i++)
		s->registers[i] = (uint64_t)g[order[i]];
	__asm__("mov %%fs:0, %0" : "=r"(s->fs));
	s->gs = 0;
	s->flags = (uint64_t)g[REG_EFL];
	memcpy(s->code, (const void *)s->rip, 16);
	s->vectors = has_lanes(s->code);
	steps.at += sizeof(*s);
	if (s->vectors) {
		copy_vectors(steps.at, (const uint8_t *)u->uc_mcontext.fpregs);
		steps.at += 32 * 64 + 64;
	}
}

static void step_begin(void)
{
	stack_t stack = { .ss_sp = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			  .ss_size = 1 << 18 };
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	for (int i = 2; i < 8; i++) {
		unsigned a, b, c, d;

		__cpuid_count(0xd, i, a, b, c, d);
		area_of[i] = b;
	}
	sigaltstack(&stack, NULL);
	sigaction(SIGTRAP, &action, NULL);
	steps.base = steps.at = mmap(NULL, STEP_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* ---- the files -------------------------------------------------------------------------- */

static void put(int fd, const void *data, uint64_t bytes)
{
	const char *at = data;

	if (write(fd, &bytes, 8) != 8)
		_exit(3);
	while (bytes) {
		ssize_t n = write(fd, at, bytes);

		if (n <= 0)
			_exit(3);
		at += n;
		bytes -= (uint64_t)n;
	}
}

static int create(const char *dir, const char *name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		_exit(3);
	return fd;
}

enum way { NATIVE, STEP, TRANSLATED };

static void child(const struct host_case *c, enum way way, const char *dir)
{
	static const char *const names[] = { "native", "step", "translated" };
	struct host_record *r = host_record();
	int fd;

	host_way = way == TRANSLATED ? HOST_TRANSLATE : way == STEP ? HOST_STEP : HOST_OFF;
	stepping = way == STEP;
	c->run(result);
	stepping = false;
	host_way = HOST_OFF;
	fd = create(dir, names[way]);
	put(fd, result, 4096);
	if (way == STEP)
		put(fd, steps.base, (uint64_t)(steps.at - steps.base));
	if (way == TRANSLATED) {
		uint64_t ends[3] = { r->sections, r->end, r->detail };

		put(fd, ends, sizeof(ends));
		put(fd, host_blocks(), host_file()->blocks_used);
		put(fd, r->words, (uint64_t)(r->at - r->words) * 8);
	}
	close(fd);
	_exit(0);
}

static const struct host_case *const lists[] = { host_asm_cases, host_c_cases, host_cxx_cases, host_lib_cases };

int main(int argc, char **argv)
{
	const char *why;

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++)
			for (const struct host_case *c = lists[l]; c->name; c++)
				puts(c->name);
		return 0;
	}
	if (argc != 3 && argc != 4)
		return 2;
	if (!host_start(&why)) {
		fprintf(stderr, "%s\n", why);
		return 4;
	}
	result = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	step_begin(); /* in all three: the same address space */
	for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++) {
		for (const struct host_case *c = lists[l]; c->name; c++) {
			if (strcmp(c->name, argv[1]))
				continue;
			if (argc == 4) /* one way, in this process: for a debugger */
				child(c, (enum way)atoi(argv[3]), argv[2]);
			for (enum way way = NATIVE; way <= TRANSLATED; way++) {
				pid_t pid = fork();
				int status;

				if (!pid)
					child(c, way, argv[2]);
				if (waitpid(pid, &status, 0) != pid || status) {
					fprintf(stderr, "%s: way %d: status %#x\n", c->name, way, status);
					return 1;
				}
			}
			return 0;
		}
	}
	return 2;
}
