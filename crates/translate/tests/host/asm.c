/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The functions of asm_cases.S, each in a section of its own. */
#include <cpuid.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host.h"

#define ASM_CASE(name) \
	void asm_##name(uint8_t *result); \
	static void run_##name(uint8_t *result) \
	{ \
		section_begin(); \
		asm_##name(result); \
		section_end(); \
	}

ASM_CASE(operands)
ASM_CASE(stack)
ASM_CASE(xlat)
ASM_CASE(strings)
ASM_CASE(bits)
ASM_CASE(flow)
ASM_CASE(pairs)
ASM_CASE(state)
ASM_CASE(transaction)
ASM_CASE(sse)
ASM_CASE(avx)
ASM_CASE(avx512)

void asm_narrow(uint8_t *result);
static void *low; /* the same in all children */

__attribute__((constructor)) static void map_low(void)
{
	low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
}

static void run_narrow(uint8_t *result)
{
	memset(low, 0x5a, 4096);
	memcpy(result + 4000, &low, sizeof(low));
	section_begin();
	asm_narrow(result);
	section_end();
	memcpy(result + 1000, low, 1000);
	memset(result + 4000, 0, 8);
}

static void run_avx_if(uint8_t *result)
{
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
		run_avx(result);
	else
		run_sse(result);
}

/* Many processors have no transactions (AMD's), or no longer: leaf 7, RTM. */
static void run_transaction_if(uint8_t *result)
{
	unsigned a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_RTM))
		run_transaction(result);
	else
		run_sse(result);
}

static void run_avx512_if(uint8_t *result)
{
	if (__builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bw"))
		run_avx512(result);
	else
		run_sse(result);
}

const struct host_case host_asm_cases[] = {
	{ "asm-operands", run_operands }, { "asm-stack", run_stack },   { "asm-xlat", run_xlat },
	{ "asm-narrow", run_narrow },     { "asm-strings", run_strings }, { "asm-bits", run_bits },
	{ "asm-flow", run_flow },         { "asm-pairs", run_pairs },   { "asm-state", run_state },
	{ "asm-transaction", run_transaction_if }, { "asm-sse", run_sse }, { "asm-avx", run_avx_if },
	{ "asm-avx512", run_avx512_if },  { 0, 0 },
};
