/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. Reads the program's own mapped .eh_frame; keeps nothing. */
#include "cv_cfi.h"
#include "cv_dwarf.h"

#include "cv_banned.h"

#define REMEMBERED 3 /* nested DW_CFA_remember_state; compilers use one or two */

/* What a common information entry says. */
struct cie {
	struct cv_cursor program;
	uint64_t code_align;
	int64_t data_align;
	uint8_t fde_enc;
	bool augmented; /* 'z': FDEs carry a length of augmentation data */
	bool signal;    /* 'S' */
};

/* A cursor over the object's bytes from `at` on. */
static struct cv_cursor cursor_at(const struct cv_mapping *m, uint64_t at)
{
	bool ok = at >= m->lo && at < m->hi;

	return (struct cv_cursor){(const uint8_t *)at, (const uint8_t *)m->hi, ok};
}

/* Enter the record at the cursor: returns its body and moves the cursor behind it. A length of 0 ends
 * the section. */
static struct cv_cursor record_enter(struct cv_cursor *c)
{
	struct cv_cursor body = {0};
	uint64_t length = cv_u32(c);

	if (length == 0xffffffff)
		length = cv_u64(c);
	if (!c->ok || !length || length > (uint64_t)(c->end - c->p))
		return body;
	body = (struct cv_cursor){c->p, c->p + length, true};
	c->p += length;
	return body;
}

static bool cie_parse(const struct cv_mapping *m, uint64_t at, struct cie *cie)
{
	struct cv_cursor c = cursor_at(m, at);
	struct cv_cursor b = record_enter(&c);
	const uint8_t *aug;
	uint64_t length, ra;
	uint8_t version;

	memset(cie, 0, sizeof(*cie));
	if (cv_u32(&b) != 0) /* CIE id */
		return false;
	version = cv_u8(&b);
	if (!b.ok || (version != 1 && version != 3))
		return false;
	aug = b.p;
	while (cv_u8(&b))
		;
	cie->code_align = cv_uleb(&b);
	cie->data_align = cv_sleb(&b);
	ra = version == 1 ? cv_u8(&b) : cv_uleb(&b);
	if (!b.ok || ra != CV_RIP)
		return false;
	if (*aug == 'z') {
		cie->augmented = true;
		length = cv_uleb(&b);
		if (!b.ok || length > (uint64_t)(b.end - b.p))
			return false;
		struct cv_cursor data = {b.p, b.p + length, true};

		cv_skip(&b, length);
		for (aug++; *aug; aug++) {
			switch (*aug) {
			case 'R':
				cie->fde_enc = cv_u8(&data);
				break;
			case 'P':
				cv_pointer(&data, cv_u8(&data) & ~CV_PE_INDIRECT, 0);
				break;
			case 'L':
				cv_u8(&data);
				break;
			case 'S':
				cie->signal = true;
				break;
			default:
				return false;
			}
		}
		if (!data.ok)
			return false;
	} else if (*aug) {
		return false;
	}
	cie->program = b;
	return b.ok && !(cie->fde_enc & CV_PE_INDIRECT);
}

/* Parse the FDE at `at`: true if it covers `pc`. `*next` is set to the record behind it, 0 = none. */
static bool fde_parse(const struct cv_mapping *m, uint64_t at, uint64_t pc, struct cie *cie,
		      struct cv_cursor *program, uint64_t *start, uint64_t *next)
{
	struct cv_cursor c = cursor_at(m, at);
	struct cv_cursor b = record_enter(&c);
	uint64_t id_at = (uint64_t)b.p;
	uint64_t id, range;

	*next = b.ok ? (uint64_t)c.p : 0;
	id = cv_u32(&b);
	if (!b.ok || id == 0 || !cie_parse(m, id_at - id, cie))
		return false;
	*start = cv_pointer(&b, cie->fde_enc, 0);
	range = cv_pointer(&b, cie->fde_enc & CV_PE_FORMAT, 0);
	if (cie->augmented)
		cv_skip(&b, cv_uleb(&b));
	*program = b;
	return b.ok && pc >= *start && pc - *start < range;
}

/* The FDE of `pc` by the sorted table of .eh_frame_hdr (LSB 5.0 core, section 10.6.2), or, if the
 * linker made no table, by walking the section. */
static bool fde_find(const struct cv_mapping *m, uint64_t pc, struct cie *cie, struct cv_cursor *program,
		     uint64_t *start)
{
	struct cv_cursor c = cursor_at(m, (uint64_t)m->eh_hdr);
	uint64_t hdr = (uint64_t)m->eh_hdr;
	uint8_t version = cv_u8(&c);
	uint8_t frame_enc = cv_u8(&c);
	uint8_t count_enc = cv_u8(&c);
	uint8_t table_enc = cv_u8(&c);
	uint64_t frames = cv_pointer(&c, frame_enc, hdr);
	uint64_t next;

	if (!c.ok || version != 1)
		return false;
	if (count_enc != CV_PE_OMIT && table_enc == 0x3b /* datarel sdata4 */) {
		uint64_t count = cv_pointer(&c, count_enc, hdr);
		uint64_t lo = 0, hi = count;
		int32_t key;

		if (!c.ok || !count || count > (uint64_t)(c.end - c.p) / 8)
			return false;
		while (hi - lo > 1) {
			uint64_t mid = lo + (hi - lo) / 2;

			memcpy(&key, c.p + mid * 8, 4);
			if (hdr + (uint64_t)(int64_t)key <= pc)
				lo = mid;
			else
				hi = mid;
		}
		memcpy(&key, c.p + lo * 8 + 4, 4);
		return fde_parse(m, hdr + (uint64_t)(int64_t)key, pc, cie, program, start, &next);
	}
	for (uint64_t at = frames; at; at = next)
		if (fde_parse(m, at, pc, cie, program, start, &next))
			return true;
	return false;
}

/* The state of a running CFA program. */
struct machine {
	const struct cv_mapping *m;
	const struct cie *cie;
	uint64_t at; /* address that the row describes so far */
	uint64_t pc;
	struct cv_cfi_row row;
	struct cv_cfi_row initial;
	struct cv_cfi_row saved[REMEMBERED];
	uint32_t depth;
	bool ok;
};

static void set_rule(struct machine *x, uint64_t reg, enum cv_cfi_how how, int64_t value)
{
	if (reg >= CV_REGS) /* vector registers and the like: of no use here */
		return;
	if (value < INT32_MIN || value > INT32_MAX)
		x->ok = false;
	x->row.how[reg] = how;
	x->row.value[reg] = (int32_t)value;
}

static void set_cfa(struct machine *x, bool is_expr, uint64_t reg, int64_t value)
{
	if (reg >= CV_REGS || value < INT32_MIN || value > INT32_MAX)
		x->ok = false;
	x->row.cfa_is_expr = is_expr;
	x->row.cfa_reg = (uint8_t)reg;
	x->row.cfa = (int32_t)value;
}

/* An expression is kept as where it is. */
static int64_t take_expr(struct machine *x, struct cv_cursor *c)
{
	int64_t at = (int64_t)((uint64_t)c->p - x->m->lo);

	cv_skip(c, cv_uleb(c));
	return at;
}

/* One instruction that has its operands in following bytes. */
static void run_extended(struct machine *x, struct cv_cursor *c, uint8_t op)
{
	const struct cie *cie = x->cie;
	uint64_t reg;

	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x01: /* set_loc */
		x->at = cv_pointer(c, cie->fde_enc, 0);
		break;
	case 0x02: /* advance_loc1 */
		x->at += cv_u8(c) * cie->code_align;
		break;
	case 0x03:
		x->at += cv_u16(c) * cie->code_align;
		break;
	case 0x04:
		x->at += cv_u32(c) * cie->code_align;
		break;
	case 0x05: /* offset_extended */
		reg = cv_uleb(c);
		set_rule(x, reg, CV_CFI_AT, (int64_t)cv_uleb(c) * cie->data_align);
		break;
	case 0x06: /* restore_extended */
		reg = cv_uleb(c);
		if (reg < CV_REGS)
			set_rule(x, reg, x->initial.how[reg], x->initial.value[reg]);
		break;
	case 0x07: /* undefined */
		set_rule(x, cv_uleb(c), CV_CFI_UNDEFINED, 0);
		break;
	case 0x08: /* same_value */
		set_rule(x, cv_uleb(c), CV_CFI_SAME, 0);
		break;
	case 0x09: /* register */
		reg = cv_uleb(c);
		set_rule(x, reg, CV_CFI_REGISTER, (int64_t)cv_uleb(c));
		break;
	case 0x0a: /* remember_state */
		if (x->depth == REMEMBERED)
			x->ok = false;
		else
			x->saved[x->depth++] = x->row;
		break;
	case 0x0b: /* restore_state */
		if (!x->depth)
			x->ok = false;
		else
			x->row = x->saved[--x->depth];
		break;
	case 0x0c: /* def_cfa */
		reg = cv_uleb(c);
		set_cfa(x, false, reg, (int64_t)cv_uleb(c));
		break;
	case 0x0d: /* def_cfa_register */
		set_cfa(x, false, cv_uleb(c), x->row.cfa);
		break;
	case 0x0e: /* def_cfa_offset */
		set_cfa(x, false, x->row.cfa_reg, (int64_t)cv_uleb(c));
		break;
	case 0x0f: /* def_cfa_expression */
		set_cfa(x, true, 0, take_expr(x, c));
		break;
	case 0x10: /* expression */
		reg = cv_uleb(c);
		set_rule(x, reg, CV_CFI_AT_EXPR, take_expr(x, c));
		break;
	case 0x11: /* offset_extended_sf */
		reg = cv_uleb(c);
		set_rule(x, reg, CV_CFI_AT, cv_sleb(c) * cie->data_align);
		break;
	case 0x12: /* def_cfa_sf */
		reg = cv_uleb(c);
		set_cfa(x, false, reg, cv_sleb(c) * cie->data_align);
		break;
	case 0x13: /* def_cfa_offset_sf */
		set_cfa(x, false, x->row.cfa_reg, cv_sleb(c) * cie->data_align);
		break;
	case 0x14: /* val_offset */
		reg = cv_uleb(c);
		set_rule(x, reg, CV_CFI_IS, (int64_t)cv_uleb(c) * cie->data_align);
		break;
	case 0x15: /* val_offset_sf */
		reg = cv_uleb(c);
		set_rule(x, reg, CV_CFI_IS, cv_sleb(c) * cie->data_align);
		break;
	case 0x16: /* val_expression */
		reg = cv_uleb(c);
		set_rule(x, reg, CV_CFI_IS_EXPR, take_expr(x, c));
		break;
	case 0x2e: /* GNU_args_size: matters to exception landing only */
		cv_uleb(c);
		break;
	case 0x2f: /* GNU_negative_offset_extended */
		reg = cv_uleb(c);
		set_rule(x, reg, CV_CFI_AT, -(int64_t)cv_uleb(c) * cie->data_align);
		break;
	default:
		x->ok = false;
	}
}

/* Run a program up to the row that covers x->pc. */
static void run(struct machine *x, struct cv_cursor c)
{
	while (x->ok && c.ok && c.p < c.end && x->at <= x->pc) {
		uint8_t op = cv_u8(&c);
		uint8_t low = op & 0x3f;

		switch (op >> 6) {
		case 1: /* advance_loc */
			x->at += low * x->cie->code_align;
			break;
		case 2: /* offset */
			set_rule(x, low, CV_CFI_AT, (int64_t)cv_uleb(&c) * x->cie->data_align);
			break;
		case 3: /* restore */
			if (low < CV_REGS)
				set_rule(x, low, x->initial.how[low], x->initial.value[low]);
			break;
		default:
			run_extended(x, &c, op);
		}
	}
	x->ok = x->ok && c.ok;
}

bool cv_cfi_find(const struct cv_mapping *m, uint64_t pc, struct cv_cfi_row *row)
{
	struct cv_cursor program;
	struct machine x;
	struct cie cie;

	if (!m->eh_hdr)
		return false;
	/* Not cleared as a whole: the saved rows are most of it. */
	memset(&x.row, 0, sizeof(x.row));
	x.m = m;
	x.cie = &cie;
	x.pc = pc;
	x.depth = 0;
	x.ok = true;
	if (!fde_find(m, pc, &cie, &program, &x.at))
		return false;
	x.row.signal = cie.signal;
	run(&x, cie.program);
	x.initial = x.row;
	run(&x, program);
	*row = x.row;
	return x.ok;
}
