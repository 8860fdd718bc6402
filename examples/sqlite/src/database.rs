//! An in-memory SQLite database with one table and two prepared statements.

use std::ffi::{c_char, c_int, CStr};
use std::ptr;

use libsqlite3_sys as ffi;

const SCHEMA: &CStr = c"CREATE TABLE items (key INTEGER PRIMARY KEY, value TEXT)";
const BEGIN: &CStr = c"BEGIN";
const INSERT: &CStr = c"INSERT INTO items VALUES (?1, ?2)";
const SELECT: &CStr = c"SELECT value FROM items WHERE key = ?1";

/// To be called before any database is opened.
pub fn configure(memstatus: bool) -> Result<(), String> {
    // SAFETY: SQLITE_CONFIG_MEMSTATUS takes one int, and no thread uses SQLite yet.
    let status =
        unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, c_int::from(memstatus)) };
    expect(ffi::SQLITE_OK, status, "sqlite3_config")
}

/// A database of the thread that opened it.
pub struct Database {
    handle: *mut ffi::sqlite3,
    insert: *mut ffi::sqlite3_stmt,
    select: *mut ffi::sqlite3_stmt,
}

impl Database {
    /// An empty table in memory. The connection is used by one thread only, so that it needs no lock
    /// of its own (SQLITE_OPEN_NOMUTEX).
    pub fn open() -> Result<Self, String> {
        let mut database = Self {
            handle: ptr::null_mut(),
            insert: ptr::null_mut(),
            select: ptr::null_mut(),
        };
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_NOMUTEX;
        // SAFETY: the name ends with a zero; the handle is written, and closed in `drop` whatever it is.
        let opened = unsafe {
            ffi::sqlite3_open_v2(
                c":memory:".as_ptr(),
                &mut database.handle,
                flags,
                ptr::null(),
            )
        };
        expect(ffi::SQLITE_OK, opened, "sqlite3_open_v2")?;
        database.execute(SCHEMA, "create table")?;
        database.insert = database.prepare(INSERT)?;
        database.select = database.prepare(SELECT)?;
        Ok(database)
    }

    /// Begins a transaction that never ends: a database in memory needs no commit to be read by its
    /// connection.
    pub fn begin(&mut self) -> Result<(), String> {
        self.execute(BEGIN, "begin")
    }

    /// Inserts one row.
    pub fn insert(&mut self, key: i64) -> Result<(), String> {
        let value = format!("value of the key {key}");
        let length = c_int::try_from(value.len()).map_err(|e| e.to_string())?;
        // SAFETY: `insert` is a statement of this connection with two parameters; SQLite copies the text.
        let stepped = unsafe {
            ffi::sqlite3_bind_int64(self.insert, 1, key);
            let text = value.as_ptr().cast::<c_char>();
            ffi::sqlite3_bind_text(self.insert, 2, text, length, ffi::SQLITE_TRANSIENT());
            let stepped = ffi::sqlite3_step(self.insert);
            ffi::sqlite3_reset(self.insert);
            stepped
        };
        expect(ffi::SQLITE_DONE, stepped, "insert")
    }

    /// Selects one row and returns the sum of the bytes of its value.
    pub fn select(&mut self, key: i64) -> Result<u64, String> {
        // SAFETY: `select` is a statement of this connection with one parameter and one column; the
        // text ends with a zero and lives until the statement is reset.
        let (stepped, sum) = unsafe {
            ffi::sqlite3_bind_int64(self.select, 1, key);
            let stepped = ffi::sqlite3_step(self.select);
            let text = ffi::sqlite3_column_text(self.select, 0).cast::<c_char>();
            let bytes = if text.is_null() {
                &[]
            } else {
                CStr::from_ptr(text).to_bytes()
            };
            let sum = bytes.iter().map(|&byte| u64::from(byte)).sum();
            ffi::sqlite3_reset(self.select);
            (stepped, sum)
        };
        expect(ffi::SQLITE_ROW, stepped, "select").map(|()| sum)
    }

    /// Runs a statement without rows once.
    fn execute(&self, sql: &CStr, what: &str) -> Result<(), String> {
        let statement = self.prepare(sql)?;
        // SAFETY: a statement of an open connection, not used afterwards.
        let done = unsafe {
            let done = ffi::sqlite3_step(statement);
            ffi::sqlite3_finalize(statement);
            done
        };
        expect(ffi::SQLITE_DONE, done, what)
    }

    fn prepare(&self, sql: &CStr) -> Result<*mut ffi::sqlite3_stmt, String> {
        let mut statement = ptr::null_mut();
        // SAFETY: an open connection, a text that ends with a zero, and a place for the statement.
        let status = unsafe {
            ffi::sqlite3_prepare_v2(
                self.handle,
                sql.as_ptr(),
                -1,
                &mut statement,
                ptr::null_mut(),
            )
        };
        expect(ffi::SQLITE_OK, status, "sqlite3_prepare_v2").map(|()| statement)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: null is allowed in all three; nobody else has the pointers.
        unsafe {
            ffi::sqlite3_finalize(self.insert);
            ffi::sqlite3_finalize(self.select);
            ffi::sqlite3_close(self.handle);
        }
    }
}

fn expect(wanted: c_int, found: c_int, what: &str) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: SQLite said {found} instead of {wanted}"))
}
