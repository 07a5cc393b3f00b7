//! Rows of Postgres, in its own text.

use anyhow::ensure;

use super::{Pair, SourceRows};
use crate::sql::Sql;

pub(super) fn read(sql: &mut Sql, pair: &Pair) -> anyhow::Result<SourceRows> {
    let (schema, table) = (sql.literal(&pair.source.0), sql.literal(&pair.source.1));
    let described = sql.rows(&format!(
            "select a.attname, base.oid in ('bpchar'::regtype, 'inet'::regtype, 'xml'::regtype),
                    case when t.typcategory = 'A' then 'list' when t.typname in ('hstore', 'vector', 'geometry', 'geography') then t.typname::text else '' end,
                    coalesce(element.oid, 0) in ('bpchar'::regtype, 'inet'::regtype, 'xml'::regtype),
                    exists (select from pg_index i where i.indrelid = c.oid and (i.indisprimary or i.indisreplident) and a.attnum = any (i.indkey)),
                    quote_ident(home.nspname)
             from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
             join lateral (
                 with recursive step (oid, depth) as (
                     select a.atttypid, 0 union all
                     select t.typbasetype, depth + 1 from step join pg_type t on t.oid = step.oid and t.typtype = 'd')
                 select oid from step order by depth desc limit 1) base on true
             join pg_type t on t.oid = base.oid join pg_namespace home on home.oid = t.typnamespace left join pg_type element on element.oid = t.typelem
             where n.nspname = {schema} and c.relname = {table} and a.attnum > 0 and not a.attisdropped order by a.attnum"
        ))?;
    ensure!(!described.is_empty(), "the source has no table {pair}");
    let text = |row: &[Option<String>], at: usize| row[at].clone().unwrap_or_default();
    let columns: Vec<String> = described.iter().map(|row| text(row, 0)).collect();
    let key = (0..columns.len()).filter(|&at| text(&described[at], 4) == "t").collect();
    let expressions = described.iter().map(|row| {
        let name = sql.identifier(&text(row, 0));
        // What a client sees, where the cast says something else: it takes padding away, adds a netmask, and keeps an XML
        // declaration that says nothing.
        let shown = |value: &str, differs: bool| {
            if differs {
                format!("case when {value} is not null then concat({value}) end")
            } else {
                format!("{value}::text")
            }
        };
        let of =
            |parts: String| format!("case when num_nulls({name}) = 0 then array_to_json(array({parts}))::text end");
        match text(row, 2).as_str() {
            "list" => {
                let part = shown(&format!("({name})[at]"), text(row, 3) == "t");
                of(format!("select {part} from generate_subscripts({name}, 1) at order by at"))
            }
            "vector" => of(format!(
                "select part::text from unnest({name}::real[]) with ordinality parts (part, at) order by at"
            )),
            "hstore" => of(format!("select array[key, value] from {}.each({name})", text(row, 5))),
            "geometry" | "geography" => {
                let home = text(row, 5);
                format!("'\\x' || encode({home}.st_asewkb({name}::{home}.geometry, 'NDR'), 'hex')")
            }
            _ => shown(&name, text(row, 1) == "t"),
        }
    });
    let list = expressions.collect::<Vec<_>>().join(", ");
    let from = format!("{}.{}", sql.identifier(&pair.source.0), sql.identifier(&pair.source.1));
    let rows = sql.rows(&format!("select {list} from {from}"))?;
    Ok(SourceRows { columns, key, rows })
}
