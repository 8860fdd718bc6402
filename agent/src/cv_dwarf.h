/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reading DWARF data that may be cut or wrong: every read is bounded, and a read that fails makes all
 * later ones fail, so that callers test `ok` once. */
#ifndef CV_DWARF_H
#define CV_DWARF_H

#include "cv_agent.h"

struct cv_cursor {
	const uint8_t *p, *end;
	bool ok;
};

static inline bool cv_take(struct cv_cursor *c, void *to, size_t n)
{
	if (!c->ok || (size_t)(c->end - c->p) < n) {
		c->ok = false;
		memset(to, 0, n);
		return false;
	}
	memcpy(to, c->p, n);
	c->p += n;
	return true;
}

static inline uint8_t cv_u8(struct cv_cursor *c)
{
	uint8_t v;

	cv_take(c, &v, 1);
	return v;
}

static inline uint16_t cv_u16(struct cv_cursor *c)
{
	uint16_t v;

	cv_take(c, &v, 2);
	return v;
}

static inline uint32_t cv_u32(struct cv_cursor *c)
{
	uint32_t v;

	cv_take(c, &v, 4);
	return v;
}

static inline uint64_t cv_u64(struct cv_cursor *c)
{
	uint64_t v;

	cv_take(c, &v, 8);
	return v;
}

static inline uint64_t cv_uleb(struct cv_cursor *c)
{
	uint64_t v = 0;
	unsigned int shift = 0;
	uint8_t b;

	do {
		b = cv_u8(c);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80);
	return v;
}

static inline int64_t cv_sleb(struct cv_cursor *c)
{
	uint64_t v = 0;
	unsigned int shift = 0;
	uint8_t b;

	do {
		b = cv_u8(c);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80);
	if ((b & 0x40) && shift < 64)
		v |= ~0ull << shift;
	return (int64_t)v;
}

static inline void cv_skip(struct cv_cursor *c, uint64_t n)
{
	if (!c->ok || (uint64_t)(c->end - c->p) < n)
		c->ok = false;
	else
		c->p += n;
}

/* DW_EH_PE_*: how a pointer is written. */
#define CV_PE_FORMAT 0x0f
#define CV_PE_BASE 0x70
#define CV_PE_PCREL 0x10
#define CV_PE_DATAREL 0x30
#define CV_PE_INDIRECT 0x80
#define CV_PE_OMIT 0xff

/* A pointer in encoding `enc`; `data` is the base of DATAREL ones. */
static inline uint64_t cv_pointer(struct cv_cursor *c, uint8_t enc, uint64_t data)
{
	uint64_t at = (uint64_t)c->p;
	uint64_t v = 0;

	switch (enc & CV_PE_FORMAT) {
	case 0x00: /* absptr */
	case 0x04: /* udata8 */
	case 0x0c: /* sdata8 */
		v = cv_u64(c);
		break;
	case 0x01:
		v = cv_uleb(c);
		break;
	case 0x02:
		v = cv_u16(c);
		break;
	case 0x03:
		v = cv_u32(c);
		break;
	case 0x09:
		v = (uint64_t)cv_sleb(c);
		break;
	case 0x0a:
		v = (uint64_t)(int64_t)(int16_t)cv_u16(c);
		break;
	case 0x0b:
		v = (uint64_t)(int64_t)(int32_t)cv_u32(c);
		break;
	default:
		c->ok = false;
	}
	switch (enc & CV_PE_BASE) {
	case 0:
		return v;
	case CV_PE_PCREL:
		return v + at;
	case CV_PE_DATAREL:
		return v + data;
	default: /* TEXTREL, FUNCREL, ALIGNED: not used on x86-64 and aarch64 */
		c->ok = false;
		return 0;
	}
}

#endif
