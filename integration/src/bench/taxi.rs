//! The table that is loaded and streamed: a row of the New York taxi records (19 columns, about 130 bytes) and a key.
//!
//! Rows are made on the server from their key alone, by the same arithmetic in every database.

use calve_testkit::servers::Kind;

use super::source::Source;

/// The table's name.
pub(super) const TRIPS: &str = "trips";

/// Rows of a transaction where many rows are inserted or updated.
const BATCH: u64 = 1000;
/// The same where nobody reads the log of them.
const LARGE_BATCH: u64 = 100_000;

const COLUMNS: &str = "(id bigint primary key, vendor_id int not null, pickup_at timestamp not null, \
     dropoff_at timestamp not null, passenger_count int, trip_distance double precision, ratecode_id int, \
     store_and_forward varchar(1), pickup_location_id int not null, dropoff_location_id int not null, payment_type int, \
     fare_amount double precision, extra double precision, mta_tax double precision, tip_amount numeric(8,2), \
     tolls_amount numeric(8,2), improvement_surcharge double precision, total_amount numeric(8,2), \
     congestion_surcharge double precision, airport_fee numeric(8,2))";

/// Makes the table, empty.
pub(super) fn create(source: &mut Source) -> anyhow::Result<()> {
    let columns = match source.kind() {
        Kind::Postgres => COLUMNS.to_owned(),
        // Where TIMESTAMP is an instant, and ends in 2038.
        Kind::MySql | Kind::MariaDb => COLUMNS.replace("timestamp", "datetime"),
    };
    source.sql.run(&format!("create table {TRIPS} {columns}"))
}

/// Inserts rows with the keys from 1 on, in transactions as an application makes them.
pub(super) fn insert(source: &mut Source, rows: u64) -> anyhow::Result<()> {
    insert_by(source, rows, BATCH)
}

/// Inserts rows with the keys from 1 on, as quickly as the server can.
pub(super) fn fill(source: &mut Source, rows: u64) -> anyhow::Result<()> {
    insert_by(source, rows, if source.kind() == Kind::Postgres { LARGE_BATCH } else { LARGE_BATCH / 10 })
}

fn insert_by(source: &mut Source, rows: u64, batch: u64) -> anyhow::Result<()> {
    let numbers = Numbers::make(source, batch)?;
    for_batches(rows, batch, |first, last| {
        source.sql.run(&format!("insert into {TRIPS} {}", select(source.kind(), &numbers.between(first, last))))
    })
}

/// Updates every row up to a key once.
pub(super) fn update(source: &mut Source, rows: u64) -> anyhow::Result<()> {
    for_batches(rows, BATCH, |first, last| {
        source.sql.run(&format!(
            "update {TRIPS} set tip_amount = tip_amount + 1, total_amount = total_amount + 1 \
             where id between {first} and {last}"
        ))
    })
}

/// Calls with the first and last number of each batch of the numbers from 1 on.
pub(super) fn for_batches(
    rows: u64,
    batch: u64,
    mut each: impl FnMut(u64, u64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut first = 1;
    while first <= rows {
        let last = rows.min(first + batch - 1);
        each(first, last)?;
        first = last + 1;
    }
    Ok(())
}

/// Where consecutive numbers come from, as a column `i`.
pub(super) struct Numbers {
    kind: Kind,
}

impl Numbers {
    /// Makes what it takes to have so many at once.
    pub(super) fn make(source: &mut Source, at_once: u64) -> anyhow::Result<Self> {
        let kind = source.kind();
        if kind != Kind::Postgres {
            // Doubled until there are enough.
            source.sql.run("create table if not exists numbers (n int primary key)")?;
            source.sql.run("replace into numbers values (0)")?;
            let mut count = 1;
            while count < at_once {
                source.sql.run(&format!("replace into numbers select n + {count} from numbers where n < {count}"))?;
                count *= 2;
            }
        }
        Ok(Self { kind })
    }

    /// A FROM clause.
    pub(super) fn between(&self, first: u64, last: u64) -> String {
        match self.kind {
            Kind::Postgres => format!("from generate_series({first}::bigint, {last}) i"),
            Kind::MySql | Kind::MariaDb => {
                format!("from (select n + {first} i from numbers where n <= {}) numbered", last - first)
            }
        }
    }
}

/// The rows of a FROM clause that has `i`. Columns take different bits of a hash of it, so that they do not compress as a series would.
fn select(kind: Kind, from: &str) -> String {
    let seconds = |seconds: &str| match kind {
        Kind::Postgres => format!("timestamp '2024-01-01 00:00:00' + ({seconds}) * interval '1 second'"),
        Kind::MySql | Kind::MariaDb => format!("timestamp'2024-01-01 00:00:00' + interval ({seconds}) second"),
    };
    let div = |by: u32| match kind {
        Kind::Postgres => format!("(h / {by})"),
        Kind::MySql | Kind::MariaDb => format!("(h div {by})"),
    };
    let money = |cents: String| format!("cast({cents} as decimal(10,2)) / 100");
    let pickup = "floor(i / 2) + h % 3600";
    let values = [
        "i".to_owned(),
        "1 + h % 2".to_owned(),
        seconds(pickup),
        seconds(&format!("{pickup} + 300 + {} % 3000", div(7))),
        format!("1 + {} % 6", div(11)),
        format!("({} % 3000) / 100.0", div(13)),
        format!("1 + {} % 6", div(17)),
        format!("case when {} % 100 = 0 then 'Y' else 'N' end", div(19)),
        format!("1 + {} % 265", div(23)),
        format!("1 + {} % 265", div(29)),
        format!("1 + {} % 4", div(31)),
        format!("(250 + {} % 6000) / 100.0", div(37)),
        format!("({} % 3) * 0.5", div(41)),
        "0.5".to_owned(),
        money(format!("{} % 1500", div(43))),
        format!("case when {} % 20 = 0 then 6.94 else 0 end", div(47)),
        "1.0".to_owned(),
        money(format!("(750 + {} % 6000 + {} % 1500)", div(37), div(43))),
        "2.5".to_owned(),
        format!("case when {} % 12 = 0 then 1.75 else 0 end", div(53)),
    ];
    // The odd constant is 2^32 by the golden ratio (Knuth's multiplicative hash).
    format!("select {} from (select i, (i * 2654435761) & 4294967295 h {from}) hashed", values.join(", "))
}
