//! The same types and values where the lake is to have them as text (`type: string`): DuckDB shows the text that a client sees.

use anyhow::ensure;
use calve_integration::readers;
use calve_testkit::readers::Reader;

use super::plain::Plain;
use super::run::Source;

/// Loads and streams the tables; `printed` is the expression for a column's text.
pub(super) fn texts_are_what_a_client_sees(
    source: &mut Source,
    tables: &[Plain],
    printed: fn(&str) -> String,
) -> anyhow::Result<()> {
    let entries: Vec<String> = tables.iter().map(|table| table.as_texts(&source.schema)).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    source.case.pipeline = source.case.pipeline.clone().tables(&entries);
    for table in tables {
        source.case.sql.run(&(table.create() + &table.insert(0, 0)))?;
    }
    source.case.pipeline.once()?;
    for table in tables {
        source.case.sql.run(&(table.insert(1, 0) + &table.update(0, 1)))?;
    }
    source.case.pipeline.once()?;
    for table in tables {
        let name = &table.name;
        let [before, after] = source.while_printing;
        source.case.sql.run(before)?;
        let columns = ["id".to_owned()].into_iter().chain(table.columns()).map(|column| printed(&column));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let schema = source.case.sql.identifier(&source.schema);
        let expected = source.case.sql.rows(&format!("select {columns} from {schema}.{name} order by id"))?;
        source.case.sql.run(after)?;
        let in_lake = source.case.lake().table(&source.schema, name)?;
        let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&in_lake, "select * from t order by id")?))?;
        ensure!(found.rows.len() == expected.len(), "{name}: {} rows and not {}", found.rows.len(), expected.len());
        table.same_rows(&expected, &found.rows, "DuckDB")?;
    }
    source.case.pipeline.finish(&["verify"])?.expect_success()?;
    Ok(())
}
