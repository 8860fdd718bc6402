/*
 * sqlite_load: threads query a table by one connection of SQLite, and then use the answer. The
 * connection's lock is held while a query runs (SQLITE_THREADSAFE=1).
 *
 * threads=4 queries=200000 rows=10000 outside=3000   links of work with an answer
 */
#include "program.h"

#include <sqlite3.h>

static sqlite3 *database;
static uint64_t queries, rows, outside_links;

static NOINLINE uint64_t use_answer(uint64_t x)
{
	return work_inline(x, outside_links);
}

static void run_sql(const char *sql)
{
	check(sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK, sql);
}

static void fill(void)
{
	static const char row[] = "INSERT INTO t SELECT value * 7, value || ' of the table' FROM "
				  "(WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 "
				  "FROM n LIMIT %llu) SELECT value FROM n)";
	char sql[sizeof row + 24];

	run_sql("CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT)");
	snprintf(sql, sizeof sql, row, (unsigned long long)rows);
	run_sql(sql);
}

static void *querier_main(void *arg)
{
	uint64_t random = 88172645463325252u + (uintptr_t)arg, x = random;
	sqlite3_stmt *query = NULL;

	sqlite3_prepare_v2(database, "SELECT v FROM t WHERE k = ?", -1, &query, NULL);
	check(query != NULL, "the query is not valid");
	for (uint64_t i = 0; i < queries; i++) {
		sqlite3_bind_int64(query, 1, (sqlite3_int64)(7 * (1 + random_next(&random) % rows)));
		check(sqlite3_step(query) == SQLITE_ROW, "a row is missing");
		x += (uint64_t)sqlite3_column_bytes(query, 0);
		sqlite3_reset(query);
		x = use_answer(x);
	}
	sqlite3_finalize(query);
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group queriers;

	(void)argc;
	options = argv;
	queries = number("queries", 200000);
	rows = number("rows", 10000);
	outside_links = number("outside", 3000);
	check(sqlite3_open(":memory:", &database) == SQLITE_OK, "the database cannot be opened");
	fill();
	start(&queriers, number("threads", 4), querier_main, "querier");
	join(&queriers);
	sqlite3_close(database);
	return 0;
}
