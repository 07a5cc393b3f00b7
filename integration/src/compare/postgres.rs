//! Rows of Postgres, in its own text.

use anyhow::ensure;

use super::{Pair, SourceRows};
use crate::sql::Sql;

pub(super) fn read(sql: &mut Sql, pair: &Pair) -> anyhow::Result<SourceRows> {
    let (schema, table) = (sql.literal(&pair.source.0), sql.literal(&pair.source.1));
    let described = sql.rows(&format!(
            "select a.attname, a.atttypid in ('bpchar'::regtype, 'inet'::regtype),
                    exists (select from pg_index i where i.indrelid = c.oid and (i.indisprimary or i.indisreplident) and a.attnum = any (i.indkey))
             from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
             where n.nspname = {schema} and c.relname = {table} and a.attnum > 0 and not a.attisdropped order by a.attnum"
        ))?;
    ensure!(!described.is_empty(), "the source has no table {pair}");
    let text = |row: &[Option<String>], at: usize| row[at].clone().unwrap_or_default();
    let columns: Vec<String> = described.iter().map(|row| text(row, 0)).collect();
    let key = (0..columns.len()).filter(|&at| text(&described[at], 2) == "t").collect();
    let expressions = described.iter().map(|row| {
        let name = sql.identifier(&text(row, 0));
        // What a client sees, where the cast says something else: it takes padding away, and adds a netmask.
        if text(row, 1) == "t" {
            format!("case when {name} is not null then concat({name}) end")
        } else {
            format!("{name}::text")
        }
    });
    let list = expressions.collect::<Vec<_>>().join(", ");
    let from = format!("{}.{}", sql.identifier(&pair.source.0), sql.identifier(&pair.source.1));
    let rows = sql.rows(&format!("select {list} from {from}"))?;
    Ok(SourceRows { columns, key, rows })
}
