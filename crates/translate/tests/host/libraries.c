/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Libraries that nobody here wrote. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "host.h"

static void compress_text(uint8_t *result)
{
	static char text[6000];
	static uint8_t packed[8000];
	uLongf bytes = sizeof(packed), back = 3000;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "some words that come again "[i * i % 27 % (i % 13 + 1)];
	section_begin();
	compress2(packed, &bytes, (const Bytef *)text, sizeof(text), 6);
	uncompress(result, &back, packed, bytes);
	*(uint32_t *)(result + 3900) = (uint32_t)crc32(0, (const Bytef *)text, sizeof(text));
	section_end();
	memcpy(result + 3904, packed, 100);
}

static int row(void *result, int columns, char **values, char **names)
{
	(void)names;
	for (int i = 0; i < columns; i++)
		strcat(strcat(result, values[i] ? values[i] : "-"), "|");
	return 0;
}

static void query(uint8_t *result)
{
	sqlite3 *db;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		return;
	sqlite3_exec(db, "create table t(a integer primary key, b text, c real)", NULL, NULL, NULL);
	section_begin();
	for (int i = 0; i < 8; i++) {
		char text[100];

		snprintf(text, sizeof(text), "insert into t values(%d, 'name %d', %d.5)", i, i * 7 % 5, i);
		sqlite3_exec(db, text, NULL, NULL, NULL);
	}
	sqlite3_exec(db, "select b, sum(c), count(*) from t group by b order by 2 desc", row, result, NULL);
	section_end();
	sqlite3_close(db);
}

const struct host_case host_lib_cases[] = {
	{ "zlib", compress_text },
	{ "sqlite", query },
	{ 0, 0 },
};
