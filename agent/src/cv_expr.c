/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. DWARF 5, section 2.5: the operations that call frame information may use. */
#include "cv_cfi.h"
#include "cv_dwarf.h"

#include "cv_banned.h"

#define DEPTH 16
#define STEPS 256 /* a loop in an expression must not hang the program */

struct eval {
	struct cv_cursor c;
	const uint8_t *begin;
	const uint64_t *regs;
	uint32_t known; /* bit per register */
	cv_cfi_read *read;
	void *arg;
	uint64_t stack[DEPTH];
	uint32_t n;
	bool ok;
};

static void push(struct eval *e, uint64_t v)
{
	if (e->n == DEPTH)
		e->ok = false;
	else
		e->stack[e->n++] = v;
}

static uint64_t pop(struct eval *e)
{
	if (!e->n) {
		e->ok = false;
		return 0;
	}
	return e->stack[--e->n];
}

static uint64_t reg_value(struct eval *e, uint64_t reg)
{
	if (reg >= CV_REGS || !(e->known >> reg & 1)) {
		e->ok = false;
		return 0;
	}
	return e->regs[reg];
}

static void deref(struct eval *e, uint8_t size)
{
	uint64_t v = 0;

	if (size == 0 || size > 8 || !e->read(e->arg, pop(e), &v))
		e->ok = false;
	push(e, size < 8 ? v & ((1ull << (size * 8 % 64)) - 1) : v);
}

static void pick(struct eval *e, uint32_t from_top)
{
	if (from_top >= e->n)
		e->ok = false;
	else
		push(e, e->stack[e->n - 1 - from_top]);
}

static void jump(struct eval *e, bool taken)
{
	int64_t by = (int16_t)cv_u16(&e->c);
	const uint8_t *to = e->c.p + by;

	if (!taken)
		return;
	if (to < e->begin || to > e->c.end)
		e->ok = false;
	else
		e->c.p = to;
}

static void binary(struct eval *e, uint8_t op)
{
	uint64_t b = pop(e), a = pop(e);
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case 0x1a: push(e, a & b); break;
	case 0x1b: /* div; the one overflow traps */
		if (!sb || (sb == -1 && sa == INT64_MIN))
			e->ok = false;
		else
			push(e, (uint64_t)(sa / sb));
		break;
	case 0x1c: push(e, a - b); break;
	case 0x1d:
		if (!b)
			e->ok = false;
		else
			push(e, a % b);
		break;
	case 0x1e: push(e, a * b); break;
	case 0x21: push(e, a | b); break;
	case 0x22: push(e, a + b); break;
	case 0x24: push(e, b < 64 ? a << b : 0); break;
	case 0x25: push(e, b < 64 ? a >> b : 0); break;
	case 0x26: push(e, (uint64_t)(sa >> (b < 63 ? b : 63))); break;
	case 0x27: push(e, a ^ b); break;
	case 0x29: push(e, sa == sb); break;
	case 0x2a: push(e, sa >= sb); break;
	case 0x2b: push(e, sa > sb); break;
	case 0x2c: push(e, sa <= sb); break;
	case 0x2d: push(e, sa < sb); break;
	case 0x2e: push(e, sa != sb); break;
	default: e->ok = false;
	}
}

static void step(struct eval *e, uint8_t op)
{
	struct cv_cursor *c = &e->c;
	uint64_t a, b;

	if (op >= 0x30 && op <= 0x4f) { /* lit0.. */
		push(e, op - 0x30u);
		return;
	}
	if (op >= 0x70 && op <= 0x8f) { /* breg0.. */
		a = reg_value(e, op - 0x70u);
		push(e, a + (uint64_t)cv_sleb(c));
		return;
	}
	switch (op) {
	case 0x03: push(e, cv_u64(c)); break;
	case 0x06: deref(e, 8); break;
	case 0x08: push(e, cv_u8(c)); break;
	case 0x09: push(e, (uint64_t)(int64_t)(int8_t)cv_u8(c)); break;
	case 0x0a: push(e, cv_u16(c)); break;
	case 0x0b: push(e, (uint64_t)(int64_t)(int16_t)cv_u16(c)); break;
	case 0x0c: push(e, cv_u32(c)); break;
	case 0x0d: push(e, (uint64_t)(int64_t)(int32_t)cv_u32(c)); break;
	case 0x0e:
	case 0x0f: push(e, cv_u64(c)); break;
	case 0x10: push(e, cv_uleb(c)); break;
	case 0x11: push(e, (uint64_t)cv_sleb(c)); break;
	case 0x12: pick(e, 0); break; /* dup */
	case 0x13: pop(e); break;
	case 0x14: pick(e, 1); break; /* over */
	case 0x15: pick(e, cv_u8(c)); break;
	case 0x16: /* swap */
		b = pop(e);
		a = pop(e);
		push(e, b);
		push(e, a);
		break;
	case 0x19: /* abs */
		a = pop(e);
		push(e, (int64_t)a < 0 ? 0 - a : a);
		break;
	case 0x1f: push(e, 0 - pop(e)); break;
	case 0x20: push(e, ~pop(e)); break;
	case 0x23: /* plus_uconst */
		a = pop(e);
		push(e, a + cv_uleb(c));
		break;
	case 0x28: jump(e, pop(e) != 0); break; /* bra */
	case 0x2f: jump(e, true); break; /* skip */
	case 0x92: /* bregx */
		a = reg_value(e, cv_uleb(c));
		push(e, a + (uint64_t)cv_sleb(c));
		break;
	case 0x94: deref(e, cv_u8(c)); break;
	case 0x96: break; /* nop */
	default: binary(e, op);
	}
}

bool cv_cfi_eval(const struct cv_mapping *m, int32_t expr, const uint64_t regs[CV_REGS], uint32_t known,
		 const uint64_t *initial, cv_cfi_read *read, void *arg, uint64_t *result)
{
	struct eval e;
	uint64_t length;

	e.c = (struct cv_cursor){(const uint8_t *)(m->lo + (uint64_t)expr), (const uint8_t *)m->hi, expr >= 0};
	length = cv_uleb(&e.c);
	if (!e.c.ok || length > (uint64_t)(e.c.end - e.c.p))
		return false;
	e.begin = e.c.p;
	e.c.end = e.c.p + length;
	e.regs = regs;
	e.known = known;
	e.read = read;
	e.arg = arg;
	e.n = 0;
	e.ok = true;
	if (initial)
		push(&e, *initial);
	for (uint32_t i = 0; e.ok && e.c.ok && e.c.p < e.c.end; i++) {
		if (i == STEPS)
			return false;
		step(&e, cv_u8(&e.c));
	}
	*result = pop(&e);
	return e.ok && e.c.ok;
}
