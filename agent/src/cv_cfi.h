/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Call frame information: what .eh_frame says about one address. DWARF 5, section 6.4; the .eh_frame
 * variations of it: LSB 5.0 core, section 10.6; x86-64 register numbers: psABI, figure 3.36.
 */
#ifndef CV_CFI_H
#define CV_CFI_H

#include "cv_modules.h"

enum cv_dwarf_reg {
	CV_RBX = 3,
	CV_RBP = 6,
	CV_RSP = 7,
	CV_R12 = 12,
	CV_R13 = 13,
	CV_R14 = 14,
	CV_R15 = 15,
	CV_RIP = 16, /* the return address column */
	CV_REGS = 17,
};

enum cv_cfi_how {
	CV_CFI_SAME = 0,   /* not saved; for the stack pointer: it is the CFA */
	CV_CFI_UNDEFINED,  /* lost; for the return address: the outermost frame */
	CV_CFI_AT,         /* saved at CFA + value */
	CV_CFI_IS,         /* CFA + value */
	CV_CFI_REGISTER,   /* in register `value` */
	CV_CFI_AT_EXPR,    /* saved at the expression's result */
	CV_CFI_IS_EXPR,    /* the expression's result */
};

/* How to find the caller's registers at one address. Expressions are offsets from the start of the
 * mapping to their ULEB128 length. */
struct cv_cfi_row {
	uint8_t cfa_is_expr;
	uint8_t cfa_reg;
	uint8_t signal; /* the caller was interrupted: its address is exact */
	uint8_t how[CV_REGS];
	int32_t cfa;
	int32_t value[CV_REGS];
};

/* The row of `pc`; false: the object has no (readable) information about it. */
bool cv_cfi_find(const struct cv_mapping *m, uint64_t pc, struct cv_cfi_row *row);

/* Reads a word of the interrupted program's stack; false = not readable. */
typedef bool cv_cfi_read(void *arg, uint64_t addr, uint64_t *value);

/* Evaluate an expression of a row; `initial` is pushed first if not NULL. */
bool cv_cfi_eval(const struct cv_mapping *m, int32_t expr, const uint64_t regs[CV_REGS], uint32_t known,
		 const uint64_t *initial, cv_cfi_read *read, void *arg, uint64_t *result);

#endif
