//! Locks that a database keeps for its clients: of rows, of tables. Who waits for one sleeps at what is its own, so that no word tells them
//! apart, but the functions do.

use convoy_model::{Model, Site, SiteId};

use crate::facts::lock_recognition::{is_in, CONDITION_WAITS};

/// A lock that a database keeps for its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServersLock {
    pub(crate) of: Database,
    pub(crate) what: Locked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Database {
    PostgreSql,
    /// And MariaDB.
    MySql,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Locked {
    Row,
    Table,
    Other,
}

/// Where a process of PostgreSQL waits for a lock...
const PROC_SLEEP: [&str; 1] = ["ProcSleep"];
/// ... and what for: a row, or whoever has changed it, or a table. There are others: to make a file longer, what clients call locks.
const FOR_A_TABLE: [&str; 3] = ["LockRelation", "LockRelationOid", "LockRelationId"];
const FOR_A_ROW: [&str; 3] = [
    "XactLockTableWait",
    "heap_lock_tuple",
    "heap_acquire_tuplock",
];
const PROC_WAKES: [&str; 2] = ["ProcWakeup", "ProcLockWakeup"];

/// A thread of MySQL or MariaDB that does what a client has asked for...
const OF_A_CLIENT: &str = "dispatch_command";
/// ... waits for a condition on its way to a row, in a storage engine whose own functions have lost their names...
const TO_A_ROW: &str = "handler::ha_";
/// ... or for the right to use a table, or something else that has a name.
const TO_A_NAME: [&str; 2] = ["MDL_wait::timed_wait", "MDL_context::acquire_lock"];
const OPENS: [&str; 2] = ["open_table", "lock_table"];
/// Where they let them go: at the end of the transaction.
const AT_THE_END: [&str; 6] = [
    "ha_commit",
    "ha_rollback",
    "trans_commit",
    "trans_rollback",
    "MDL_context::release",
    "MDL_wait::set_status",
];

/// The lock that is waited for there.
pub(crate) fn servers_lock(model: &Model, site: Option<SiteId>) -> Option<ServersLock> {
    let of_postgres = is_in(model, site, &PROC_SLEEP);
    let waits = of_postgres || is_in(model, site, &CONDITION_WAITS);
    let at = model.site(site?).filter(|_| waits)?;
    let calls = |functions: &[&str]| at.has_function(|name| functions.contains(&name));
    let begins = |functions: &[&str]| has_method(at, functions);
    let of = match of_postgres {
        true => Database::PostgreSql,
        false if begins(&[OF_A_CLIENT]) && !begins(&AT_THE_END) => Database::MySql,
        false => return None,
    };
    let what = match of {
        Database::PostgreSql if calls(&FOR_A_ROW) => Locked::Row,
        Database::PostgreSql if calls(&FOR_A_TABLE) => Locked::Table,
        Database::PostgreSql => Locked::Other,
        Database::MySql if begins(&TO_A_NAME) && begins(&OPENS) => Locked::Table,
        Database::MySql if begins(&TO_A_NAME) => Locked::Other,
        Database::MySql if begins(&[TO_A_ROW]) => Locked::Row,
        Database::MySql => return None,
    };
    Some(ServersLock { of, what })
}

fn has_method(site: &Site, begin: &[&str]) -> bool {
    site.has_function(|name| begin.iter().any(|begin| name.starts_with(begin)))
}

impl ServersLock {
    /// Whether it is let go there.
    pub(crate) fn is_let_go(self, model: &Model, waker: Option<SiteId>) -> bool {
        match self.of {
            Database::PostgreSql => is_in(model, waker, &PROC_WAKES),
            Database::MySql => waker
                .and_then(|id| model.site(id))
                .is_some_and(|site| has_method(site, &AT_THE_END)),
        }
    }

    /// What it is, and what to do about it.
    pub(crate) fn said(self) -> (String, String) {
        let (of, what) = match self.what {
            Locked::Row => ("a row that transactions change", "row"),
            Locked::Table => ("a table that transactions lock", "table"),
            Locked::Other => {
                let fix = format!(
                    "less between taking it and letting it go ({} says which it is)",
                    self.views()
                );
                return ("a lock of the database".into(), fix);
            }
        };
        let fix = format!(
            "change what all change late in the transaction, and commit at once: nothing else between, neither the client's work nor a trip \
             to it; or several {what}s instead of one, or one change for many transactions"
        );
        (format!("{of} (a lock of the database)"), fix)
    }

    /// What is not known of it.
    pub(crate) fn caveat(self) -> String {
        let views = self.views();
        format!(
            "which rows or tables is not known: what the database says of its locks does ({views})"
        )
    }

    /// Where the database says which of its locks are waited for.
    fn views(self) -> &'static str {
        match (self.of, self.what) {
            (Database::PostgreSql, _) => "pg_locks, log_lock_waits",
            (Database::MySql, Locked::Row) => {
                "information_schema.INNODB_LOCK_WAITS, performance_schema.data_locks"
            }
            (Database::MySql, _) => {
                "performance_schema.metadata_locks, the plugin metadata_lock_info of MariaDB"
            }
        }
    }
}
